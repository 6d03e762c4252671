"""Classes and functions of the frameworks that the config of a model may name under `safe_mode`.

Other names are refused, also those of classes of a later Keras. Before a class is added to a list, read its source: it
must not open a file, import a module, hold a Python function, or call another loader.
"""

from __future__ import annotations

__all__ = ["CLASSES", "FUNCTIONS", "LAYERS", "LAYERS_WITH_WEIGHTS", "TYPE_SPECS", "VALUES", "names"]


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# Layers and their parts. `safety.py` checks the `vocabulary` of lookup layers, which may be a path.
_LAYERS = names(
    """
    Activation ActivityRegularization AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D
    AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D Add AdditiveAttention AddLoss AddMetric
    AlphaDropout Attention AugMix AutoContrast Average AveragePooling1D AveragePooling2D AveragePooling3D AvgPool1D
    AvgPool2D AvgPool3D BatchNormalization BatchNormalizationV1 BatchNormalizationV2 Bidirectional CategoryCrossing
    CategoryEncoding CenterCrop Concatenate ContrastLimitedAdaptiveHistogramEqualization Conv1D Conv1DTranspose
    Conv2D Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM ConvLSTM1D ConvLSTM2D ConvLSTM2DCell ConvLSTM3D
    ConvLSTMCell Convolution1D Convolution1DTranspose Convolution2D Convolution2DTranspose Convolution3D
    Convolution3DTranspose Cropping1D Cropping2D Cropping3D Cross CuDNNGRU CuDNNLSTM CustomScaleLayer CutMix Dense
    DenseFeatures DepthwiseConv1D DepthwiseConv2D Discretization Dot Dropout EinsumDense ELU Embedding Equalization
    Feature FeatureSpace Flatten GaussianDropout GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D
    GlobalAveragePooling3D GlobalAvgPool1D GlobalAvgPool2D GlobalAvgPool3D GlobalMaxPool1D GlobalMaxPool2D
    GlobalMaxPool3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D GroupedQueryAttention
    GroupNormalization GroupQueryAttention GRU GRUCell GRUCellV1 GRUCellV2 GRUV1 GRUV2 HashedCrossing Hashing
    Identity Input InputLayer IntegerLookup LayerNormalization LayerScale LeakyReLU LocallyConnected1D
    LocallyConnected2D LSTM LSTMCell LSTMCellV1 LSTMCellV2 LSTMV1 LSTMV2 Masking Maximum MaxNumBoundingBoxes
    MaxPool1D MaxPool2D MaxPool3D MaxPooling1D MaxPooling2D MaxPooling3D MelSpectrogram Minimum MixUp
    MultiHeadAttention Multiply Normalization Permute Pipeline PReLU RandAugment RandomBrightness
    RandomColorDegeneration RandomColorJitter RandomContrast RandomCrop RandomElasticTransform RandomErasing
    RandomFlip RandomGaussianBlur RandomGrayscale RandomHeight RandomHue RandomInvert RandomPerspective
    RandomPosterization RandomRotation RandomSaturation RandomSharpness RandomShear RandomTranslation RandomWidth
    RandomZoom ReLU RepeatVector Rescaling Reshape Resizing ReversibleEmbedding RMSNormalization RNN SeparableConv1D
    SeparableConv2D SeparableConvolution1D SeparableConvolution2D SequenceFeatures SimpleRNN SimpleRNNCell Softmax
    Solarization SpatialDropout1D SpatialDropout2D SpatialDropout3D SpectralNormalization StackedRNNCells
    STFTSpectrogram StochasticDepth StringLookup Subtract SyncBatchNormalization TextVectorization TFDConcat
    TFDIdentity ThresholdedReLU TimeDistributed UnitNormalization UpSampling1D UpSampling2D UpSampling3D Wrapper
    ZeroPadding1D ZeroPadding2D ZeroPadding3D
    """
)

# Models, whose configs contain those of their layers.
_MODELS = names(
    """
    Functional InputSpec Model Sequential
    """
)

# Operations of Keras 3 on symbolic tensors. Those that take a Python function are not here.
_OPERATIONS = names(
    """
    Abs Absolute AdaptiveAveragePool AdaptiveMaxPool Add AffineTransform All AllClose Amax Amin Angle Any Append
    Arange Arccos Arccosh Arcsin Arcsinh Arctan Arctan2 Arctanh Argmax Argmin Argpartition Argsort Array ArraySplit
    Average AveragePool BatchNorm BinaryCrossentropy Bincount BitwiseAnd BitwiseInvert BitwiseLeftShift BitwiseNot
    BitwiseOr BitwiseRightShift BitwiseXor BroadcastTo Cast CategoricalCrossentropy Cbrt CDist Ceil Celu Cholesky
    CholeskyInverse Clip Concatenate Conj Conjugate Conv ConvertToTensor ConvTranspose Copy Corrcoef Correlate Cos
    Cosh CountNonzero CropImages Cross CTCDecode CTCLoss Cumprod Cumsum Deg2rad DepthToSpace DepthwiseConv Det Diag
    Diagflat Diagonal Diff Digitize Divide DivideNoNan Dot DotProductAttention Dsplit Dstack Eig Eigh Einsum
    ElasticTransform Elu EmptyLike Equal Erf Erfc Erfinv Exp Exp2 ExpandDims Expm1 ExtractPatches ExtractSequences
    Fabs FFT FFT2 Flip Fliplr Flipud Floor FloorDivide Fmax Fmin Fmod Fold Full FullLike GaussianBlur Gcd Gelu
    Geomspace GetItem Glu Greater GreaterEqual HardShrink HardSigmoid HardSilu HardTanh Heaviside Histogram Hsplit
    Hstack HSVToRGB Hypot I0 IFFT2 Imag Inner InTopK Inv IRFFT Isclose Isfinite IsIn Isinf Isnan Isneginf Isposinf
    Isreal ISTFT Kron LayerNorm Lcm Ldexp LeakyRelu LeftShift Less LessEqual Linspace Log Log10 Log1p Log2 Logaddexp
    Logaddexp2 Logdet LogicalAnd LogicalNot LogicalOr LogicalXor LogSigmoid LogSoftmax Logspace Logsumexp Lstsq
    LuFactor MapCoordinates Matmul MatrixRank Max Maximum MaxPool Mean Median Meshgrid Min Minimum Mod Moments
    Moveaxis MultiHot Multiply Nanargmax Nanargmin Nancumprod Nancumsum Nanmax Nanmean Nanmedian Nanmin
    Nanpercentile Nanprod Nanquantile Nanstd Nansum NanToNum Nanvar Ndim Negative Nextafter Nonzero Norm Normalize
    NotEqual OneHot OnesLike Outer Pad PadImages Percentile PerspectiveTransform Pinv Polar Power Prod PSNR Ptp Qr
    Quantile Rad2deg Ravel Real Rearrange Reciprocal Relu Relu6 Repeat Reshape Resize RFFT RGBToGrayscale RGBToHSV
    RightShift RMSNorm Roll Rot90 Round Rsqrt SaturateCast ScaleAndTranslate Scatter ScatterUpdate SearchSorted
    SegmentMax SegmentMin SegmentProd SegmentReduction SegmentSum Select Selu SeparableConv Sigmoid Sign Signbit
    Silu Sin Sinc Sinh Size Slice SliceUpdate Slogdet SobelEdges Softmax Softplus SoftShrink Softsign Solve
    SolveTriangular Sort SpaceToDepth SparseCategoricalCrossentropy Sparsemax SparsePlus SparseSigmoid Split Sqrt
    Square Squareplus Squeeze SSIM Stack Std STFT StopGradient Subtract Sum SVD Swapaxes Take TakeAlongAxis Tan Tanh
    TanhShrink Tensordot Threshold Tile TopK Trace Transpose Trapezoid Tril Triu TrueDivide Trunc Unfold Unique
    UnravelIndex Unstack Vander Var Vdot View ViewAsComplex ViewAsReal Vsplit Vstack Where ZerosLike
    """
)

# Losses and metrics.
_LOSSES_AND_METRICS = names(
    """
    Accuracy AUC BinaryAccuracy BinaryCrossentropy BinaryFocalCrossentropy BinaryIoU CategoricalAccuracy
    CategoricalCrossentropy CategoricalFocalCrossentropy CategoricalGeneralizedCrossEntropy CategoricalHinge Circle
    ConcordanceCorrelation CosineSimilarity CTC Dice F1Score FalseNegatives FalsePositives FBetaScore Hinge Huber
    IoU KLDivergence LogCosh LogCoshError LossFunctionWrapper Mean MeanAbsoluteError MeanAbsolutePercentageError
    MeanIoU MeanMetricWrapper MeanRelativeError MeanSquaredError MeanSquaredLogarithmicError MeanTensor OneHotIoU
    OneHotMeanIoU PearsonCorrelation Poisson Precision PrecisionAtRecall R2Score Recall RecallAtPrecision
    RootMeanSquaredError SensitivityAtSpecificity SparseCategoricalAccuracy SparseCategoricalCrossentropy
    SparseTopKCategoricalAccuracy SpecificityAtSensitivity SquaredHinge Sum SumOverBatchSizeMetricWrapper
    TopKCategoricalAccuracy TrueNegatives TruePositives Tversky
    """
)

# Initializers, regularizers and constraints, with the names of older releases.
_WEIGHTS = names(
    """
    Constant constant glorot_normal glorot_uniform GlorotNormal GlorotUniform he_normal he_uniform HeNormal
    HeUniform Identity identity IdentityInitializer L1 l1 l1_l2 L1L2 L2 l2 lecun_normal lecun_uniform LecunNormal
    LecunUniform max_norm MaxNorm min_max_norm MinMaxNorm non_neg NonNeg normal NormalInitializer one Ones ones
    Orthogonal orthogonal orthogonal_regularizer OrthogonalInitializer OrthogonalRegularizer radial_constraint
    RadialConstraint random_normal random_uniform RandomNormal RandomUniform STFT stft STFTInitializer
    truncated_normal TruncatedNormal uniform unit_norm UnitNorm variance_scaling VarianceScaling zero Zeros zeros
    """
)

# Optimizers, in lower case as `compile` takes them too, wrappers, schedules and loss scales.
_OPTIMIZERS = names(
    """
    Adadelta adadelta Adafactor adafactor Adagrad adagrad Adam adam Adamax adamax AdamW adamw CosineDecay
    CosineDecayRestarts DynamicLossScale ExponentialDecay FixedLossScale Ftrl ftrl InverseTimeDecay Lamb lamb
    LinearCosineDecay Lion lion LossScaleOptimizer LossScaleOptimizerV1 LossScaleOptimizerV3 Muon muon Nadam nadam
    NoisyLinearCosineDecay Optimizer PiecewiseConstantDecay PolynomialDecay RMSprop rmsprop ScheduleFreeAdamW
    schedulefreeadamw SGD sgd
    """
)

# Policies of dtypes.
_POLICIES = names(
    """
    AbsMaxQuantizer DTypePolicy DTypePolicyMap Float8QuantizationConfig FloatDTypePolicy Int4QuantizationConfig
    Int8QuantizationConfig Policy PolicyV1 QuantizedDTypePolicy QuantizedFloat8DTypePolicy
    """
)

# Feature columns of tf_keras; not those that read a file.
_FEATURE_COLUMNS = names(
    """
    BucketizedColumn CrossedColumn EmbeddingColumn HashedCategoricalColumn IdentityCategoricalColumn IndicatorColumn
    NumericColumn SequenceCategoricalColumn SequenceNumericColumn VocabularyListCategoricalColumn
    WeightedCategoricalColumn
    """
)

# Layers that have weights with any settings.
LAYERS_WITH_WEIGHTS = names(
    """
    BatchNormalization Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D
    ConvLSTM3D Dense DepthwiseConv1D DepthwiseConv2D EinsumDense Embedding GRU GRUCell LocallyConnected1D
    LocallyConnected2D LSTM LSTMCell MultiHeadAttention PReLU SeparableConv1D SeparableConv2D SimpleRNN SimpleRNNCell
    """
)

# Layers and operations that can be nodes of a functional model.
LAYERS = _LAYERS | _OPERATIONS | names("SlicingOpLambda TensorFlowOpLayer TFOpLambda")

CLASSES = _LAYERS | _MODELS | _OPERATIONS | _LOSSES_AND_METRICS | _WEIGHTS | _OPTIMIZERS | _POLICIES | _FEATURE_COLUMNS

# Activations, losses, metrics, and merging layers as functions.
FUNCTIONS = names(
    """
    acc accuracy add auto average bce binary_accuracy binary_crossentropy binary_focal_crossentropy binary_hinge
    categorical_accuracy categorical_crossentropy categorical_focal_crossentropy
    categorical_generalized_cross_entropy categorical_hinge ce celu circle concatenate concordance_correlation
    cosine cosine_distance cosine_proximity cosine_similarity crossentropy ctc dice dot elu exponential gelu glu
    hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh hinge huber kl_divergence KLD kld
    kullback_leibler_divergence leaky_relu linear log_cosh log_sigmoid log_softmax logcosh MAE mae MAPE mape maximum
    mean_absolute_error mean_absolute_percentage_error mean_squared_error mean_squared_logarithmic_error minimum
    mish MSE mse MSLE msle multiply pearson_correlation poisson relu relu6 selu sigmoid silu soft_shrink softmax
    softplus softsign sparse_categorical_accuracy sparse_categorical_crossentropy sparse_plus sparse_sigmoid
    sparse_top_k_categorical_accuracy sparsemax squared_hinge squareplus subtract swish tanh tanh_shrink threshold
    top_k_categorical_accuracy tversky
    """
)

# Class names in configs that stand for values, and not for objects of Keras.
VALUES = names(
    """
    __bytes__ __ellipsis__ __keras_tensor__ __numpy__ __slice__ __tensor__ __tuple__ CompositeTensor TensorShape
    """
)

# The class names of type specs.
TYPE_SPECS = names(
    """
    BoundedTensorSpec IndexedSlicesSpec RaggedTensorSpec SparseTensorSpec TensorSpec
    """
)
