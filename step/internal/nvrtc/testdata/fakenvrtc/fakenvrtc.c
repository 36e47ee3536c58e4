/* A stand-in for NVRTC:
 *
 *   cc -shared -fPIC -o libfakenvrtc.so fakenvrtc.c
 *
 * What it compiles is "PTX" or "CUBIN", the options and the source, a line each.
 * A source with the word "#error" does not compile. FAKENVRTC_VERSION is the
 * version, as 13.0, and FAKENVRTC_FAIL a call that fails with code 11.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef struct {
	char *source, *name, *options;
	int compiled;
} program;

static int fails(const char *call) {
	const char *f = getenv("FAKENVRTC_FAIL");
	return f && !strcmp(f, call) ? 11 : 0;
}

result nvrtcVersion(int *major, int *minor) {
	const char *v = getenv("FAKENVRTC_VERSION");
	sscanf(v ? v : "13.0", "%d.%d", major, minor);
	return fails("nvrtcVersion");
}
const char *nvrtcGetErrorString(result r) { return r == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INTERNAL_ERROR"; }
result nvrtcGetNumSupportedArchs(int *n) { *n = 3; return 0; }
result nvrtcGetSupportedArchs(int *list) { list[0] = 75; list[1] = 120; list[2] = 90; return 0; }
result nvrtcCreateProgram(program **p, const char *source, const char *name, int headers, const char *const *contents, const char *const *names) {
	if (headers || contents || names) return 3;
	*p = calloc(1, sizeof **p);
	(*p)->source = strdup(source);
	(*p)->name = strdup(name);
	(*p)->options = calloc(1, 1);
	return fails("nvrtcCreateProgram");
}
result nvrtcDestroyProgram(program **p) {
	free((*p)->source);
	free((*p)->name);
	free((*p)->options);
	free(*p);
	*p = NULL;
	return 0;
}
result nvrtcCompileProgram(program *p, int n, const char *const *options) {
	for (int i = 0; i < n; i++) {
		p->options = realloc(p->options, strlen(p->options) + strlen(options[i]) + 2);
		strcat(strcat(p->options, options[i]), " ");
	}
	p->compiled = !strstr(p->source, "#error");
	return p->compiled ? fails("nvrtcCompileProgram") : 6;
}
static size_t text(program *p, const char *kind, char *to, size_t room) {
	return 1 + (size_t)snprintf(to, room, "%s\n%s\n%s\n", kind, p->options, p->source);
}
result nvrtcGetProgramLogSize(program *p, size_t *n) { *n = strlen(p->name) + 32; return 0; }
result nvrtcGetProgramLog(program *p, char *to) { sprintf(to, "%s(1): error: as asked\n", p->name); return 0; }
result nvrtcGetPTXSize(program *p, size_t *n) { *n = text(p, "PTX", NULL, 0); return p->compiled ? 0 : 5; }
result nvrtcGetPTX(program *p, char *to) { text(p, "PTX", to, text(p, "PTX", NULL, 0)); return 0; }
result nvrtcGetCUBINSize(program *p, size_t *n) { *n = text(p, "CUBIN", NULL, 0); return p->compiled ? fails("nvrtcGetCUBINSize") : 5; }
result nvrtcGetCUBIN(program *p, char *to) { text(p, "CUBIN", to, text(p, "CUBIN", NULL, 0)); return 0; }
