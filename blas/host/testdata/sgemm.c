/* BLAS's sgemm with its Fortran interface, as plainly as possible: a stand-in
 * for OpenBLAS in tests. */
#include <stddef.h>

void sgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha,
            const float *a, const int *lda, const float *b, const int *ldb, const float *beta, float *c,
            const int *ldc, size_t lena, size_t lenb)
{
    (void)lena, (void)lenb;
    for (int j = 0; j < *n; j++)
        for (int i = 0; i < *m; i++) {
            float sum = 0;
            for (int l = 0; l < *k; l++) {
                float x = *transa == 'T' ? a[l + (size_t)i * *lda] : a[i + (size_t)l * *lda];
                float y = *transb == 'T' ? b[j + (size_t)l * *ldb] : b[l + (size_t)j * *ldb];
                sum += x * y;
            }
            float *out = &c[i + (size_t)j * *ldc];
            *out = *beta == 0 ? *alpha * sum : *alpha * sum + *beta * *out;
        }
}
