"""The op types that a SavedModel may hold under `safe_mode`: those that work on tensors in memory.

With any inputs and attributes, an op on the list does not open a file, a socket or a device of another machine, print,
or call Python. Other ops are refused, also new ones of a later TensorFlow.
"""

from __future__ import annotations

from types import MappingProxyType

# Groups by the reason why they are harmless. Not every TensorFlow release has all of these ops.
_GROUPS = {
    # Functions of each element by itself.
    "elementwise": """
        Abs AccumulateNV2 Acos Acosh Add AddN AddV2 Angle ApproximateEqual Asin Asinh Atan Atan2 Atanh BesselI0
        BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Betainc
        Bitcast BitwiseAnd BitwiseOr BitwiseXor Cast Ceil ClipByValue Complex ComplexAbs Conj Cos Cosh Cross Dawsn
        Digamma Div DivNoNan Equal Erf Erfc Erfinv Exp Expint Expm1 Floor FloorDiv FloorMod FresnelCos FresnelSin
        Greater GreaterEqual Igamma IgammaGradA Igammac Imag Inv InvGrad Invert IsFinite IsInf IsNan LeftShift Less
        LessEqual Lgamma Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Ndtri Neg
        NextAfter NotEqual Polygamma PopulationCount Pow Real RealDiv Reciprocal ReciprocalGrad RightShift Rint Round
        Rsqrt RsqrtGrad Select SelectV2 Sign Sin Sinh Spence Sqrt SqrtGrad Square SquaredDifference Sub Tan Tanh
        TanhGrad ToBool TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta
    """,
    # Sums and searches along axes.
    "reductions": """
        All Any ApproxTopK ArgMax ArgMin Bincount Bucketize Cumprod Cumsum CumulativeLogsumexp DenseBincount
        EuclideanNorm HistogramFixedWidth InTopK InTopKV2 LowerBound Max Mean Min NthElement Prod SegmentMax
        SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum SegmentSumV2 Sum TopK
        TopKUnique TopKV2 TopKWithUnique UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum
        UpperBound
    """,
    # Making, slicing, joining and rearranging tensors. Not ImmutableConst, which maps a file into memory.
    "arrays": """
        BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart BatchMatrixSetDiag BatchToSpace BatchToSpaceND
        BroadcastArgs BroadcastGradientArgs BroadcastTo CheckNumerics CheckNumericsV2 Concat ConcatOffset ConcatV2
        ConjugateTranspose Const DeepCopy DepthToSpace Diag DiagPart DynamicPartition DynamicStitch EditDistance Empty
        EnsureShape ExpandDims Fill Fingerprint Gather GatherNd GatherV2 GuaranteeConst Identity IdentityN InplaceAdd
        InplaceSub InplaceUpdate InvertPermutation LinSpace ListDiff MatrixBandPart MatrixDiag MatrixDiagPart
        MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3
        MirrorPad MirrorPadGrad OneHot OnesLike Pack Pad PadV2 ParallelConcat ParallelDynamicStitch Placeholder
        PlaceholderV2 PlaceholderWithDefault PreventGradient Range Rank Reshape Reverse ReverseSequence ReverseV2 Roll
        ScatterNd ScatterNdNonAliasingAdd Shape ShapeN Size Slice Snapshot SpaceToBatch SpaceToBatchND SpaceToDepth
        Split SplitV Squeeze StopGradient StridedSlice StridedSliceGrad TensorScatterAdd TensorScatterMax
        TensorScatterMin TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate Tile TileGrad Transpose Unique
        UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex Where ZerosLike
    """,
    "sets": "DenseToDenseSetOperation DenseToSparseSetOperation SetSize SparseToSparseSetOperation",
    # Matrices and transforms.
    "linear algebra": """
        BandedTriangularSolve BatchCholesky BatchCholeskyGrad BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D
        BatchIFFT3D BatchMatMul BatchMatMulV2 BatchMatMulV3 BatchMatrixDeterminant BatchMatrixInverse BatchMatrixSolve
        BatchMatrixSolveLs BatchMatrixTriangularSolve BatchSelfAdjointEig BatchSelfAdjointEigV2 BatchSvd Cholesky
        CholeskyGrad Eig Einsum FFT FFT2D FFT3D FFTND IFFT IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND
        LogMatrixDeterminant Lu MatMul MatrixDeterminant MatrixExponential MatrixInverse MatrixLogarithm MatrixSolve
        MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Qr RFFT RFFT2D RFFT3D RFFTND SelfAdjointEig
        SelfAdjointEigV2 Svd TridiagonalMatMul TridiagonalSolve
    """,
    # Layers, losses and their gradients.
    "neural networks": """
        AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BatchNormWithGlobalNormalization
        BatchNormWithGlobalNormalizationGrad BiasAdd BiasAddGrad BiasAddV1 BlockLSTM BlockLSTMGrad BlockLSTMGradV2
        BlockLSTMV2 CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss CTCLossV2 Conv Conv2D Conv2DBackpropFilter
        Conv2DBackpropFilterV2 Conv2DBackpropInput Conv2DBackpropInputV2 Conv3D Conv3DBackpropFilter
        Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2 CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2
        CudnnRNNBackpropV3 CudnnRNNCanonicalToParams CudnnRNNCanonicalToParamsV2 CudnnRNNParamsSize
        CudnnRNNParamsToCanonical CudnnRNNParamsToCanonicalV2 CudnnRNNV2 CudnnRNNV3 DataFormatDimMap
        DataFormatVecPermute DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
        DepthwiseConv2dNativeBackpropInput Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput Elu EluGrad
        FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad FusedBatchNorm
        FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 FusedPadConv2D
        FusedResizeAndPadConv2D GRUBlockCell GRUBlockCellGrad IsotonicRegression L2Loss LRN LRNGrad LSTMBlockCell
        LSTMBlockCellGrad LeakyRelu LeakyReluGrad LogSoftmax MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad
        MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradGradWithArgmax MaxPoolGradV2 MaxPoolGradWithArgmax
        MaxPoolV2 MaxPoolWithArgmax Relu Relu6 Relu6Grad ReluGrad Selu SeluGrad Sigmoid SigmoidGrad Softmax
        SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad SparseSoftmaxCrossEntropyWithLogits
    """,
    # Quantization-aware training, and quantized models.
    "quantization": """
        Dequantize FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
        FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient
        QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4
        QuantizeAndDequantizeV4Grad QuantizeV2 UniformDequantize UniformQuantize UniformQuantizedAdd
        UniformQuantizedClipByValue UniformQuantizedConvolution UniformQuantizedConvolutionHybrid UniformQuantizedDot
        UniformQuantizedDotHybrid UniformRequantize
    """,
    # Sparse and ragged tensors.
    "sparse": """
        CSRSparseMatrixComponents CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor
        CompositeTensorVariantFromComponents CompositeTensorVariantToComponents DenseCountSparseOutput
        DenseToCSRSparseMatrix DeserializeManySparse DeserializeSparse RaggedBincount RaggedCountSparseOutput
        RaggedCross RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather RaggedRange RaggedTensorFromVariant
        RaggedTensorToSparse RaggedTensorToTensor RaggedTensorToVariant RaggedTensorToVariantGradient
        SerializeManySparse SerializeSparse SparseAdd SparseAddGrad SparseBincount SparseConcat
        SparseCountSparseOutput SparseCross SparseCrossHashed SparseCrossV2 SparseDenseCwiseAdd SparseDenseCwiseDiv
        SparseDenseCwiseMul SparseFillEmptyRows SparseFillEmptyRowsGrad SparseMatMul SparseMatrixAdd
        SparseMatrixMatMul SparseMatrixMul SparseMatrixNNZ SparseMatrixOrderingAMD SparseMatrixSoftmax
        SparseMatrixSoftmaxGrad SparseMatrixSparseCholesky SparseMatrixSparseMatMul SparseMatrixTranspose
        SparseMatrixZeros SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseReorder
        SparseReshape SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2 SparseSegmentMeanWithNumSegments
        SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 SparseSegmentSqrtNWithNumSegments
        SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2 SparseSegmentSumWithNumSegments SparseSlice
        SparseSliceGrad SparseSoftmax SparseSparseMaximum SparseSparseMinimum SparseSplit SparseTensorDenseAdd
        SparseTensorDenseMatMul SparseTensorToCSRSparseMatrix SparseToDense
    """,
    # Text and bytes in memory. Not EncodeProto and DecodeProtoV2, which read descriptors from files.
    "strings": """
        AsString DecodeBase64 DecodeCSV DecodeCompressed DecodeJSONExample DecodePaddedRaw DecodeRaw EncodeBase64
        ParseExample ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample
        ParseSingleSequenceExample ParseTensor ReduceJoin RegexFullMatch RegexReplace SerializeTensor
        StaticRegexFullMatch StaticRegexReplace StringFormat StringJoin StringLength StringLower StringNGrams
        StringSplit StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong
        StringToNumber StringUpper Substr UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript
        UnicodeTranscode UnsortedSegmentJoin
    """,
    # Images and sound as tensors, or encoded in string tensors.
    "images and sound": """
        AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation AudioSpectrogram CombinedNonMaxSuppression
        CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage
        DecodeJpeg DecodeJxl DecodePng DecodeWav DecodeWebP DrawBoundingBoxes DrawBoundingBoxesV2 EncodeJpeg
        EncodeJpegVariableQuality EncodePng EncodeWav ExtractGlimpse ExtractGlimpseV2 ExtractImagePatches
        ExtractJpegShape ExtractVolumePatches GenerateBoundingBoxProposals HSVToRGB ImageProjectiveTransformV2
        ImageProjectiveTransformV3 Mfcc NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4
        NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps RGBToHSV ResizeArea ResizeBicubic ResizeBicubicGrad
        ResizeBilinear ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad SampleDistortedBoundingBox
        SampleDistortedBoundingBoxV2 ScaleAndTranslate ScaleAndTranslateGrad StatelessSampleDistortedBoundingBox
    """,
    # Generators with a seed, or with their state in a variable. Not FixedUnigramCandidateSampler, which reads a file.
    "random numbers": """
        AllCandidateSampler ComputeAccidentalHits LearnedUnigramCandidateSampler LogUniformCandidateSampler
        Multinomial NonDeterministicInts ParameterizedTruncatedNormal RandomCrop RandomGamma RandomGammaGrad
        RandomIndexShuffle RandomPoisson RandomPoissonV2 RandomShuffle RandomStandardNormal RandomUniform
        RandomUniformInt RngReadAndSkip RngSkip SobolSample StatefulRandomBinomial StatefulStandardNormal
        StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt StatefulUniformInt
        StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial StatelessRandomGammaV2
        StatelessRandomGammaV3 StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
        StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform
        StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
        StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle StatelessTruncatedNormal
        StatelessTruncatedNormalV2 StochasticCastToInt ThreadUnsafeUnigramCandidateSampler TruncatedNormal
        UniformCandidateSampler
    """,
    # Calls of the file's own functions, which are all checked, and Assert, which raises. Not RemoteCall.
    "control flow": """
        Assert Case ControlTrigger DeviceIndex Enter Exit FakeParam For If LoopCond Merge NextIteration NoOp
        PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile Switch While
    """,
    # Variables in memory.
    "variables": """
        AssignAddVariableOp AssignSubVariableOp AssignVariableOp DestroyResourceOp DisableCopyOnRead ReadVariableOp
        ResourceCountUpTo ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv ResourceScatterMax
        ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin
        ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate
        ResourceStridedSliceAssign VarHandleOp VarIsInitializedOp VariableShape
    """,
    # Steps of optimizers, for models that export their training step.
    "optimizers": """
        ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradDA ResourceApplyAdagradV2
        ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp
        ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent ResourceApplyKerasMomentum
        ResourceApplyMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent
        ResourceApplyRMSProp ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA
        ResourceSparseApplyAdagradV2 ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl
        ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum
        ResourceSparseApplyProximalAdagrad ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp
    """,
    # Tables that are filled from tensors.
    "tables": """
        AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable AnonymousMutableHashTableOfTensors
        HashTableV2 InitializeTableV2 LookupTableExportV2 LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2
        LookupTableRemoveV2 LookupTableSizeV2 MutableDenseHashTableV2 MutableHashTableOfTensorsV2 MutableHashTableV2
    """,
    # Lists of tensors, as in loops of control flow v1 and v2 and their gradients.
    "lists": """
        EmptyTensorList EmptyTensorMap OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone StackCloseV2
        StackPopV2 StackPushV2 StackV2 TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayGradV3
        TensorArrayGradWithShape TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArraySplitV3
        TensorArrayV3 TensorArrayWriteV3 TensorListConcat TensorListConcatLists TensorListConcatV2
        TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
        TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize
        TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
        TensorListStack TensorMapErase TensorMapHasKey TensorMapInsert TensorMapLookup TensorMapSize
        TensorMapStackKeys
    """,
    # Reading from an iterator that the caller passes, as in the `adapt` of layers. No op on the list makes an iterator.
    "iterators": "IteratorGetNext IteratorGetNextAsOptional IteratorGetNextSync",
}

HARMLESS = MappingProxyType({kind: frozenset(names.split()) for kind, names in _GROUPS.items()})
ALLOWED = frozenset().union(*HARMLESS.values())

# Ops of the two functions of every SavedModel that save and restore its variables. TensorFlow's loader does not call
# these functions (see `Calls` in `graph_calls.py`).
SAVERS = frozenset({"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"})

# It fills a table from a file. It is allowed if the file is an asset in the folder (see `graph_assets.py`).
TABLE_FROM_FILE = "InitializeTableFromTextFileV2"

# The ops that are allowed in functions which TensorFlow runs while it loads a model: they make, fill, save and restore
# tables, and join strings to names.
AT_LOAD = HARMLESS["tables"] | frozenset({"Add", "AddV2", "Const", "Identity", "IdentityN", "NoOp", "StringJoin"})
