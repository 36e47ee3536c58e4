/* Prints the values and layouts of cublasLt.h that the binding relies on. */
#include <cublasLt.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, value) printf("%s %lu\n", name, (unsigned long)(value))

int main(void)
{
    VALUE("statusNotInitialized", CUBLAS_STATUS_NOT_INITIALIZED);
    VALUE("statusAllocFailed", CUBLAS_STATUS_ALLOC_FAILED);
    VALUE("statusInvalidValue", CUBLAS_STATUS_INVALID_VALUE);
    VALUE("statusArchMismatch", CUBLAS_STATUS_ARCH_MISMATCH);
    VALUE("statusNotSupported", CUBLAS_STATUS_NOT_SUPPORTED);
    VALUE("typeF32", CUDA_R_32F);
    VALUE("typeF16", CUDA_R_16F);
    VALUE("typeBF16", CUDA_R_16BF);
    VALUE("computeF32", CUBLAS_COMPUTE_32F);
    VALUE("computeTF32", CUBLAS_COMPUTE_32F_FAST_TF32);
    VALUE("opTranspose", CUBLAS_OP_T);
    VALUE("descTransA", CUBLASLT_MATMUL_DESC_TRANSA);
    VALUE("descTransB", CUBLASLT_MATMUL_DESC_TRANSB);
    VALUE("descEpilogue", CUBLASLT_MATMUL_DESC_EPILOGUE);
    VALUE("descBiasPointer", CUBLASLT_MATMUL_DESC_BIAS_POINTER);
    VALUE("epilogueDefault", CUBLASLT_EPILOGUE_DEFAULT);
    VALUE("epilogueReLU", CUBLASLT_EPILOGUE_RELU);
    VALUE("epilogueBias", CUBLASLT_EPILOGUE_BIAS);
    VALUE("epilogueGELU", CUBLASLT_EPILOGUE_GELU);
    VALUE("epilogueReLU|epilogueBias", CUBLASLT_EPILOGUE_RELU_BIAS);
    VALUE("epilogueGELU|epilogueBias", CUBLASLT_EPILOGUE_GELU_BIAS);
    VALUE("layoutBatchCount", CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
    VALUE("layoutBatchStride", CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
    VALUE("preferWorkspace", CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    VALUE("preferReduction", CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
    VALUE("preferAlignmentA", CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    VALUE("preferAlignmentB", CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
    VALUE("preferAlignmentC", CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
    VALUE("preferAlignmentD", CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
    VALUE("reduceComputeType", CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    VALUE("configID", CUBLASLT_ALGO_CONFIG_ID);
    VALUE("configTile", CUBLASLT_ALGO_CONFIG_TILE_ID);
    VALUE("configSplitK", CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    VALUE("configReduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
    VALUE("configSwizzling", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING);
    VALUE("configCustom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION);
    VALUE("configStages", CUBLASLT_ALGO_CONFIG_STAGES_ID);
    VALUE("configInnerShape", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID);
    VALUE("configClusterShape", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
    VALUE("sizeof(algorithm)", sizeof(cublasLtMatmulAlgo_t));
    VALUE("sizeof(heuristicResult)", sizeof(cublasLtMatmulHeuristicResult_t));
    VALUE("offsetof(heuristicResult.algorithm)", offsetof(cublasLtMatmulHeuristicResult_t, algo));
    VALUE("offsetof(heuristicResult.workspaceBytes)", offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
    VALUE("offsetof(heuristicResult.state)", offsetof(cublasLtMatmulHeuristicResult_t, state));
    VALUE("offsetof(heuristicResult.waves)", offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
    VALUE("offsetof(heuristicResult.reserved)", offsetof(cublasLtMatmulHeuristicResult_t, reserved));
    VALUE("sizeof(handle)", sizeof(cublasLtHandle_t));
    VALUE("sizeof(descriptor)", sizeof(cublasLtMatmulDesc_t));
    VALUE("sizeof(layout)", sizeof(cublasLtMatrixLayout_t));
    VALUE("sizeof(preference)", sizeof(cublasLtMatmulPreference_t));
    return 0;
}
