/* Prints the values of cusparseLt.h that the binding relies on. The header is C++ in some versions. */
#include <cusparseLt.h>
#include <stdio.h>

#define VALUE(name, value) printf("%s %lu\n", name, (unsigned long)(value))

/* What the binding gives each object, and what it aligns them to. */
#define FITS(type) (sizeof(type) <= 11264 && alignof(type) <= 16)

int main()
{
    VALUE("statusNotInitialized", CUSPARSE_STATUS_NOT_INITIALIZED);
    VALUE("statusAllocFailed", CUSPARSE_STATUS_ALLOC_FAILED);
    VALUE("statusInvalidValue", CUSPARSE_STATUS_INVALID_VALUE);
    VALUE("statusArchMismatch", CUSPARSE_STATUS_ARCH_MISMATCH);
    VALUE("statusTypeNotSupported", CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED);
    VALUE("statusNotSupported", CUSPARSE_STATUS_NOT_SUPPORTED);
    VALUE("statusInsufficientResources", CUSPARSE_STATUS_INSUFFICIENT_RESOURCES);
    VALUE("typeF16", CUDA_R_16F);
    VALUE("typeBF16", CUDA_R_16BF);
    VALUE("computeF32", CUSPARSE_COMPUTE_32F);
    VALUE("orderColumn", CUSPARSE_ORDER_COL);
    VALUE("opNone", CUSPARSE_OPERATION_NON_TRANSPOSE);
    VALUE("opTranspose", CUSPARSE_OPERATION_TRANSPOSE);
    VALUE("sparsityHalf", CUSPARSELT_SPARSITY_50_PERCENT);
    VALUE("algorithmDefault", CUSPARSELT_MATMUL_ALG_DEFAULT);
    VALUE("propertyMajor", MAJOR_VERSION);
    VALUE("propertyMinor", MINOR_VERSION);
    VALUE("propertyPatch", PATCH_LEVEL);
    VALUE("objectBytes", 11264);
    VALUE("objectAlign", 16);
    VALUE("fits(handle)", FITS(cusparseLtHandle_t));
    VALUE("fits(matrix)", FITS(cusparseLtMatDescriptor_t));
    VALUE("fits(matmul)", FITS(cusparseLtMatmulDescriptor_t));
    VALUE("fits(selection)", FITS(cusparseLtMatmulAlgSelection_t));
    VALUE("fits(plan)", FITS(cusparseLtMatmulPlan_t));
    return 0;
}
