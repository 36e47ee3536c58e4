/* A stand-in for libnvidia-ml.
 *
 *   cc -shared -fPIC -o libfakenvml.so fakenvml.c
 *
 * Environment variables, with their defaults:
 *
 *   FAKENVML_DEVICES      number of GPUs, at most 4 (1)
 *   FAKENVML_GEN          current generation of the link (5)
 *   FAKENVML_WIDTH        current lanes (16)
 *   FAKENVML_PERSISTENCE  0 or 1 (1)
 *   FAKENVML_REASONS      why clocks are low, as a number (0)
 *   FAKENVML_REPLAYS      packets sent again (0)
 *   FAKENVML_CONFIDENTIAL 0 or 1 (0)
 *   FAKENVML_PROCESSES    processes that compute, numbered from 1000 (1)
 *   FAKENVML_GRAPHICS     processes that draw, numbered from 999 (0)
 *   FAKENVML_FAIL         calls that fail, and how: "nvmlInit_v2=9,…=3"
 *   FAKENVML_HANG         a call that never returns
 *   FAKENVML_CRASH        a call that crashes the process
 *
 * -DFAKENVML_OLD leaves out functions that old drivers lack, and
 * -DFAKENVML_WIDE writes the process list of the first drivers of series 535.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int result;
enum { OK, UNINITIALISED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL = 7 };

static uint64_t setting(const char *name, uint64_t fallback) {
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 0) : fallback;
}

static int is(const char *variable, const char *call) {
	const char *s = getenv(variable);
	return s && !strcmp(s, call);
}

/* injected returns the failure that FAKENVML_FAIL asks of a call. */
static result injected(const char *call) {
	if (is("FAKENVML_HANG", call))
		for (;;)
			pause();
	if (is("FAKENVML_CRASH", call))
		abort();
	const char *s = getenv("FAKENVML_FAIL");
	size_t n = strlen(call);
	for (; s && *s; s = strchr(s, ','), s = s ? s + 1 : NULL)
		if (!strncmp(s, call, n) && s[n] == '=')
			return atoi(s + n + 1);
	return OK;
}

static int initialised;
static int gpus[4];

#define ENTER do { result r = injected(__func__); if (r) return r; if (!initialised) return UNINITIALISED; } while (0)
#define ENTER_DEVICE(d) do { ENTER; if ((int *)(d) < gpus || (int *)(d) >= gpus + 4) return INVALID; } while (0)

result nvmlInit_v2(void) {
	initialised = 1;
	result r = injected(__func__);
	return r;
}

result nvmlSystemGetDriverVersion(char *version, unsigned n) {
	ENTER;
	snprintf(version, n, "580.95.05");
	return OK;
}

result nvmlDeviceGetCount_v2(unsigned *n) {
	ENTER;
	*n = setting("FAKENVML_DEVICES", 1);
	return OK;
}

result nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
	ENTER;
	if (i >= setting("FAKENVML_DEVICES", 1))
		return INVALID;
	*d = &gpus[i];
	return OK;
}

/* The addresses are those of fakecuda. */
result nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **d) {
	ENTER;
	unsigned domain, bus;
	if (sscanf(id, "%x:%x:00.0", &domain, &bus) != 2 || domain != 0xFA4E || bus < 1 || bus > setting("FAKENVML_DEVICES", 1))
		return NOT_FOUND;
	*d = &gpus[bus - 1];
	return OK;
}

result nvmlDeviceGetName(void *d, char *name, unsigned n) {
	ENTER_DEVICE(d);
	snprintf(name, n, "Fake GPU %d", (int)((int *)d - gpus));
	return OK;
}

result nvmlDeviceGetUUID(void *d, char *uuid, unsigned n) {
	ENTER_DEVICE(d);
	snprintf(uuid, n, "GPU-%08x-0000-0000-0000-000000000000", (int)((int *)d - gpus));
	return OK;
}

#define NUMBER(name, expr) \
	result name(void *d, unsigned *v) { ENTER_DEVICE(d); *v = (expr); return OK; }

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, setting("FAKENVML_GEN", 5))
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, setting("FAKENVML_WIDTH", 16))
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, setting("FAKENVML_REPLAYS", 0))
NUMBER(nvmlDeviceGetPersistenceMode, setting("FAKENVML_PERSISTENCE", 1))
NUMBER(nvmlDeviceGetPowerUsage, 123456)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, 700000)

#define SELECTED(name, expr) \
	result name(void *d, int which, unsigned *v) { ENTER_DEVICE(d); *v = (expr); return OK; }

SELECTED(nvmlDeviceGetPcieThroughput, which == 0 ? 1000 : which == 1 ? 2000000 : 0)
SELECTED(nvmlDeviceGetClockInfo, which == 1 ? 1000 : which == 2 ? 3000 : 0)
SELECTED(nvmlDeviceGetMaxClockInfo, which == 1 ? 1980 : which == 2 ? 3201 : 0)
SELECTED(nvmlDeviceGetTemperature, which == 0 ? 41 : 0)

result nvmlDeviceGetCurrentClocksThrottleReasons(void *d, uint64_t *r) {
	ENTER_DEVICE(d);
	*r = setting("FAKENVML_REASONS", 0);
	return OK;
}

#ifndef FAKENVML_OLD
result nvmlDeviceGetCurrentClocksEventReasons(void *d, uint64_t *r) {
	ENTER_DEVICE(d);
	*r = setting("FAKENVML_REASONS", 0);
	return OK;
}

result nvmlSystemGetConfComputeState(unsigned state[3]) {
	ENTER;
	state[0] = 0;
	state[1] = setting("FAKENVML_CONFIDENTIAL", 0);
	state[2] = 0;
	return OK;
}
#endif

result nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending) {
	ENTER_DEVICE(d);
	*now = 0;
	*pending = 1;
	return OK;
}

struct utilisation { unsigned gpu, memory; };

result nvmlDeviceGetUtilizationRates(void *d, struct utilisation *u) {
	ENTER_DEVICE(d);
	u->gpu = 75;
	u->memory = 25;
	return OK;
}

struct memory { unsigned long long total, free, used; };

result nvmlDeviceGetMemoryInfo(void *d, struct memory *m) {
	ENTER_DEVICE(d);
	m->total = 80ULL << 30;
	m->free = 60ULL << 30;
	m->used = 20ULL << 30;
	return OK;
}

/* Declared as in NVIDIA's reference of NVML. */
struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
#ifdef FAKENVML_WIDE
	unsigned long long protected;
#endif
};

static result processes(unsigned *n, struct process *p, unsigned count, unsigned first) {
	unsigned room = *n;
	*n = count;
	if (room < count)
		return TOO_SMALL;
	for (unsigned i = 0; i < count; i++) {
		p[i] = (struct process){0};
		p[i].pid = first + i;
		p[i].used = i == 1 ? ~0ULL : (unsigned long long)(i + 1) << 20;
		p[i].gpu_instance = p[i].compute_instance = ~0u;
	}
	return OK;
}

result nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *p) {
	ENTER_DEVICE(d);
	return processes(n, p, setting("FAKENVML_PROCESSES", 1), 1000);
}

result nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, struct process *p) {
	ENTER_DEVICE(d);
	return processes(n, p, setting("FAKENVML_GRAPHICS", 0), 999);
}

struct sample {
	unsigned pid;
	unsigned long long time;
	unsigned sm, memory, encoder, decoder;
};

result nvmlDeviceGetProcessUtilization(void *d, struct sample *s, unsigned *n, unsigned long long since) {
	ENTER_DEVICE(d);
	struct sample all[] = {{1000, 5000, 10, 1, 0, 0}, {1001, 6000, 20, 2, 0, 0}, {1000, 7000, 30, 3, 0, 0}};
	unsigned room = *n, count = 0;
	for (int i = 0; i < 3; i++)
		if (all[i].time > since && count++ < room && s)
			s[count - 1] = all[i];
	*n = count;
	return !count ? NOT_FOUND : !s || count > room ? TOO_SMALL : OK;
}
