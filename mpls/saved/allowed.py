"""What a model file may name under `safe_mode`: classes and functions of Keras, functions and ops of TensorFlow.

Other names are refused, also those of a later release. Before a name is added, read its source: a class must not open a
file, import a module, hold a Python function, or call another loader; a function or an op computes, and does no more.
"""

from __future__ import annotations

__all__ = [
    "CLASSES",
    "FUNCTIONS",
    "INSTANCE_ATTRIBUTES",
    "OPS",
    "OPTIMIZERS",
    "RAGGED_CLASS_METHODS",
    "SAVERS",
    "TYPE_SPECS",
    "VALUES",
    "is_arithmetic",
]


def _names(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# Layers and their parts. `config_safety.py` checks the `vocabulary` of lookup layers, which may be a path.
_LAYERS = _names(
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
_MODELS = _names("Functional InputSpec Model Sequential")

# Operations of Keras 3 on symbolic tensors. Those that take a Python function are not here.
_OPERATIONS = _names(
    """
    Abs Absolute AdaptiveAveragePool AdaptiveMaxPool Add AffineTransform All AllClose Amax Amin Angle Any Append
    Arange Arccos Arccosh Arcsin Arcsinh Arctan Arctan2 Arctanh Argmax Argmin Argpartition Argsort Array ArraySplit
    Average AveragePool Bartlett BatchNorm BinaryCrossentropy Bincount BitwiseAnd BitwiseInvert BitwiseLeftShift
    BitwiseNot BitwiseOr BitwiseRightShift BitwiseXor Blackman BroadcastTo Cast CategoricalCrossentropy Cbrt CDist
    Ceil Celu Cholesky CholeskyInverse Clip Concatenate Conj Conjugate Conv ConvertToTensor ConvTranspose Copy
    Corrcoef Correlate Cos Cosh CountNonzero CropImages Cross CTCDecode CTCLoss Cumprod Cumsum Deg2rad DepthToSpace
    DepthwiseConv Det Diag Diagflat Diagonal Diff Digitize Divide DivideNoNan Dot DotProductAttention Dsplit Dstack
    Eig Eigh Einsum ElasticTransform Elu EmptyLike Equal Erf Erfc Erfinv Exp Exp2 ExpandDims Expm1 ExtractPatches
    ExtractPatches3D ExtractSequences Fabs FFT FFT2 Flip Fliplr Flipud Floor FloorDivide Fmax Fmin Fmod Fold Full
    FullLike GaussianBlur Gcd Gelu Geomspace GetItem Glu Greater GreaterEqual Hamming Hanning HardShrink HardSigmoid
    HardSilu HardTanh Heaviside Histogram Hsplit Hstack HSVToRGB Hypot I0 IFFT2 Imag Inner InTopK Inv IRFFT Isclose
    Isfinite IsIn Isinf Isnan Isneginf Isposinf Isreal ISTFT Kaiser Kron LayerNorm Lcm Ldexp LeakyRelu LeftShift
    Less LessEqual Linspace Log Log10 Log1p Log2 Logaddexp Logaddexp2 Logdet LogicalAnd LogicalNot LogicalOr
    LogicalXor LogSigmoid LogSoftmax Logspace Logsumexp Lstsq LuFactor MapCoordinates Matmul MatrixRank Max Maximum
    MaxPool Mean Median Meshgrid Min Minimum Mod Moments Moveaxis MultiHot Multiply Nanargmax Nanargmin Nancumprod
    Nancumsum Nanmax Nanmean Nanmedian Nanmin Nanpercentile Nanprod Nanquantile Nanstd Nansum NanToNum Nanvar Ndim
    Negative Nextafter Nonzero Norm Normalize NotEqual OneHot OnesLike Outer Pad PadImages Percentile
    PerspectiveTransform Pinv Polar Power Prod PSNR Ptp Qr Quantile Rad2deg Ravel Real Rearrange Reciprocal Relu
    Relu6 Repeat Reshape Resize RFFT RGBToGrayscale RGBToHSV RightShift RMSNorm Roll Rot90 Round Rsqrt SaturateCast
    ScaleAndTranslate Scatter ScatterUpdate SearchSorted SegmentMax SegmentMin SegmentProd SegmentReduction
    SegmentSum Select Selu SeparableConv Sigmoid Sign Signbit Silu Sin Sinc Sinh Size Slice SliceUpdate Slogdet
    SobelEdges Softmax Softplus SoftShrink Softsign Solve SolveTriangular Sort SpaceToDepth
    SparseCategoricalCrossentropy Sparsemax SparsePlus SparseSigmoid Split Sqrt Square Squareplus Squeeze SSIM Stack
    Std STFT StopGradient Subtract Sum SVD Swapaxes Take TakeAlongAxis Tan Tanh TanhShrink Tensordot Threshold Tile
    TopK Trace Transpose Trapezoid Tril Triu TrueDivide Trunc Unfold Unique UnravelIndex Unstack Vander Var Vdot
    View ViewAsComplex ViewAsReal Vsplit Vstack Where ZerosLike
    """
)

# Losses and metrics.
_LOSSES_AND_METRICS = _names(
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
_WEIGHTS = _names(
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
OPTIMIZERS = _names(
    """
    Adadelta adadelta Adafactor adafactor Adagrad adagrad Adam adam Adamax adamax AdamW adamw CosineDecay
    CosineDecayRestarts DynamicLossScale ExponentialDecay FixedLossScale Ftrl ftrl InverseTimeDecay Lamb lamb
    LinearCosineDecay Lion lion LossScaleOptimizer LossScaleOptimizerV1 LossScaleOptimizerV3 Muon muon Nadam nadam
    NoisyLinearCosineDecay Optimizer PiecewiseConstantDecay PolynomialDecay RMSprop rmsprop ScheduleFreeAdamW
    schedulefreeadamw SGD sgd
    """
)

# Policies of dtypes.
_POLICIES = _names(
    """
    AbsMaxQuantizer DTypePolicy DTypePolicyMap Float8QuantizationConfig FloatDTypePolicy Int4QuantizationConfig
    Int8QuantizationConfig Policy PolicyV1 QuantizedDTypePolicy QuantizedFloat8DTypePolicy
    """
)

# Feature columns of tf_keras; not those that read a file.
_FEATURE_COLUMNS = _names(
    """
    BucketizedColumn CrossedColumn EmbeddingColumn HashedCategoricalColumn IdentityCategoricalColumn IndicatorColumn
    NumericColumn SequenceCategoricalColumn SequenceNumericColumn VocabularyListCategoricalColumn
    WeightedCategoricalColumn
    """
)

CLASSES = _LAYERS | _MODELS | _OPERATIONS | _LOSSES_AND_METRICS | _WEIGHTS | OPTIMIZERS | _POLICIES | _FEATURE_COLUMNS

# Activations, losses, metrics, and merging layers as functions.
FUNCTIONS = _names(
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
VALUES = _names(
    """
    __bytes__ __ellipsis__ __keras_tensor__ __numpy__ __slice__ __tensor__ __tuple__ CompositeTensor TensorShape
    """
)

# The class names of type specs.
TYPE_SPECS = _names("BoundedTensorSpec IndexedSlicesSpec RaggedTensorSpec SparseTensorSpec TensorSpec")

# Functions of TensorFlow that a layer in a model's config may call. If TensorFlow is called on a symbolic tensor,
# tf_keras makes a layer `TFOpLambda` or `SlicingOpLambda`, whose config has the public name of the function. tf_keras
# itself accepts any public name, also of functions that write files.
# By the module that exports them: of a function's names tf_keras writes one, `'math.abs'` for `tf.abs`. What takes no
# symbolic tensor, such as `tf.experimental.numpy`, is in no config. None of them takes a function, a path or a device,
# and none prints or reads or writes files.
_BY_MODULE: dict[str, str] = {
    "": """
        approx_top_k argsort batch_gather batch_to_space batch_to_space_nd bitcast boolean_mask
        broadcast_dynamic_shape broadcast_static_shape broadcast_to cast clip_by_average_norm clip_by_global_norm
        clip_by_norm clip_by_value concat convert_to_tensor decode_raw div dynamic_partition dynamic_stitch
        edit_distance einsum ensure_shape expand_dims extract_volume_patches eye fill fingerprint floor_div gather
        gather_nd histogram_fixed_width histogram_fixed_width_bins identity identity_n linspace meshgrid norm
        one_hot ones ones_like pad parallel_stack range rank realdiv repeat reshape reverse reverse_sequence roll
        scatter_nd searchsorted sequence_mask shape shape_n size slice sort space_to_batch space_to_batch_nd split
        squeeze stack stop_gradient strided_slice string_split substr tensor_scatter_nd_add tensor_scatter_nd_max
        tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update tensordot tile transpose truncatediv
        truncatemod unique unique_with_counts unravel_index unstack where zeros zeros_like
    """,
    "__operators__": "add eq getitem ne ragged_getitem",
    "bitwise": "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift",
    "dtypes": "complex saturate_cast",
    "image": """
        adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_jpeg_quality adjust_saturation central_crop
        combined_non_max_suppression convert_image_dtype crop_and_resize crop_to_bounding_box draw_bounding_boxes
        extract_glimpse extract_image_patches extract_patches flip_left_right flip_up_down
        generate_bounding_box_proposals grayscale_to_rgb hsv_to_rgb image_gradients non_max_suppression
        non_max_suppression_overlaps non_max_suppression_padded non_max_suppression_with_scores pad_to_bounding_box
        per_image_standardization psnr random_brightness random_contrast random_crop random_flip_left_right
        random_flip_up_down random_hue random_jpeg_quality random_saturation resize resize_area resize_bicubic
        resize_bilinear resize_image_with_pad resize_images resize_nearest_neighbor resize_with_crop_or_pad
        resize_with_pad rgb_to_grayscale rgb_to_hsv rgb_to_yiq rgb_to_yuv rot90 sample_distorted_bounding_box
        sobel_edges ssim ssim_multiscale stateless_random_brightness stateless_random_contrast stateless_random_crop
        stateless_random_flip_left_right stateless_random_flip_up_down stateless_random_hue
        stateless_random_jpeg_quality stateless_random_saturation stateless_sample_distorted_bounding_box
        total_variation transpose yiq_to_rgb yuv_to_rgb
    """,
    "io": """
        decode_and_crop_jpeg decode_base64 decode_bmp decode_gif decode_image decode_jpeg decode_jxl decode_png
        decode_raw decode_webp encode_base64 encode_jpeg encode_png extract_jpeg_shape
    """,
    "linalg": """
        adjoint band_part cholesky cholesky_solve cross det diag diag_part eig eigh eigh_tridiagonal eigvals
        eigvalsh expm global_norm inv logdet lstsq lu lu_matrix_inverse lu_reconstruct lu_solve matmul matrix_rank
        matrix_transpose matvec normalize pinv qr set_diag solve sqrtm svd tensor_diag tensor_diag_part trace
        triangular_solve tridiagonal_matmul tridiagonal_solve
    """,
    "math": """
        abs accumulate_n acos acosh add add_n angle approx_max_k approx_min_k argmax argmin asin asinh atan atan2
        atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc bincount ceil confusion_matrix conj cos cosh
        count_nonzero cumprod cumsum cumulative_logsumexp digamma divide divide_no_nan equal erf erfc erfcinv erfinv
        exp expm1 floor floordiv floormod greater greater_equal igamma igammac imag in_top_k invert_permutation
        is_finite is_inf is_nan is_non_decreasing is_strictly_increasing l2_normalize lbeta less less_equal lgamma
        log log1p log_sigmoid logical_and logical_not logical_or logical_xor maximum minimum multiply
        multiply_no_nan ndtri negative nextafter not_equal polygamma polyval pow real reciprocal reciprocal_no_nan
        reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod
        reduce_std reduce_sum reduce_variance rint round rsqrt scalar_mul segment_max segment_mean segment_min
        segment_prod segment_sum sigmoid sign sin sinh sobol_sample softplus sqrt square squared_difference subtract
        tan tanh top_k truediv unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod
        unsorted_segment_sqrt_n unsorted_segment_sum xdivy xlog1py xlogy zero_fraction zeta
    """,
    "math.special": """
        bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1 dawsn expint fresnel_cos
        fresnel_sin spence
    """,
    "nn": """
        atrous_conv2d atrous_conv2d_transpose avg_pool avg_pool1d avg_pool2d avg_pool3d
        batch_norm_with_global_normalization batch_normalization bias_add compute_accidental_hits conv1d
        conv1d_transpose conv2d conv2d_backprop_filter conv2d_backprop_input conv2d_transpose conv3d
        conv3d_backprop_filter conv3d_transpose conv_transpose convolution crelu ctc_beam_search_decoder
        ctc_greedy_decoder ctc_loss ctc_loss_v2 ctc_unique_labels depth_to_space depthwise_conv2d
        depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input depthwise_conv2d_native dilation2d dropout
        elu embedding_lookup embedding_lookup_sparse erosion2d fractional_avg_pool fractional_max_pool
        fused_batch_norm gelu isotonic_regression l2_loss leaky_relu local_response_normalization log_poisson_loss
        log_softmax max_pool max_pool1d max_pool2d max_pool3d max_pool_with_argmax moments nce_loss
        normalize_moments pool relu relu6 relu_layer safe_embedding_lookup_sparse sampled_softmax_loss selu
        separable_conv2d sigmoid_cross_entropy_with_logits silu softmax softmax_cross_entropy_with_logits
        softmax_cross_entropy_with_logits_v2 softsign space_to_batch space_to_depth
        sparse_softmax_cross_entropy_with_logits sufficient_statistics weighted_cross_entropy_with_logits
        weighted_moments xw_plus_b
    """,
    "nn.experimental": "stateless_dropout",
    "quantization": """
        dequantize fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars
        fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel
        fake_quant_with_min_max_vars_per_channel_gradient quantize quantize_and_dequantize
        quantize_and_dequantize_v2
    """,
    "ragged": """
        boolean_mask cross cross_hashed range row_splits_to_segment_ids segment_ids_to_row_splits stack
        stack_dynamic_partitions
    """,
    "random": """
        categorical fold_in gamma learned_unigram_candidate_sampler log_uniform_candidate_sampler multinomial normal
        poisson shuffle split stateless_binomial stateless_categorical stateless_gamma stateless_multinomial
        stateless_normal stateless_parameterized_truncated_normal stateless_poisson stateless_truncated_normal
        stateless_uniform truncated_normal uniform uniform_candidate_sampler
    """,
    "random.experimental": "index_shuffle stateless_fold_in stateless_shuffle stateless_split",
    "sets": "difference intersection size union",
    "signal": """
        dct fft fft2d fft3d fftshift frame hamming_window hann_window idct ifft ifft2d ifft3d ifftshift inverse_mdct
        inverse_stft kaiser_bessel_derived_window kaiser_window linear_to_mel_weight_matrix mdct
        mfccs_from_log_mel_spectrograms overlap_and_add stft vorbis_window
    """,
    "sparse": "bincount reshape",
    "strings": """
        as_string bytes_split format join length lower ngrams reduce_join regex_full_match regex_replace split strip
        substr to_hash_bucket to_hash_bucket_fast to_hash_bucket_strong to_number unicode_decode
        unicode_decode_with_offsets unicode_encode unicode_script unicode_split unicode_split_with_offsets
        unicode_transcode unsorted_segment_join upper
    """,
    "keras.backend": """
        abs all any argmax argmin batch_dot batch_flatten batch_normalization bias_add binary_crossentropy
        binary_focal_crossentropy cast cast_to_floatx categorical_crossentropy categorical_focal_crossentropy clip
        concatenate conv1d conv2d conv2d_transpose conv3d cos ctc_batch_cost ctc_label_dense_to_sparse cumprod
        cumsum depthwise_conv2d dot dropout elu equal exp expand_dims flatten gather greater greater_equal
        hard_sigmoid in_top_k l2_normalize less less_equal local_conv1d local_conv2d log max maximum mean min
        minimum not_equal one_hot ones_like permute_dimensions pool2d pool3d pow prod random_bernoulli
        random_binomial random_normal random_uniform relu repeat repeat_elements reshape resize_images
        resize_volumes reverse round separable_conv2d shape sigmoid sign sin softmax softplus softsign
        sparse_categorical_crossentropy spatial_2d_padding spatial_3d_padding sqrt square squeeze stack std
        stop_gradient sum tanh temporal_padding tile to_dense transpose truncated_normal
    """,
}

_ARITHMETIC = frozenset(
    f"{module}.{name}" if module else name for module, exported in _BY_MODULE.items() for name in exported.split()
)
_OF_KERAS = frozenset(f"keras.{module}.{name}" for module in ("activations", "losses", "metrics") for name in FUNCTIONS)
_OF_V1 = "compat.v1."

# The attributes of symbolic ragged and sparse tensors that `InstanceProperty` and `InstanceMethod` layers may read.
INSTANCE_ATTRIBUTES = _names(
    """
    bounding_shape dense_shape flat_values indices merge_dims nested_row_lengths nested_row_splits
    nested_value_rowids nrows row_lengths row_limits row_splits row_starts to_sparse to_tensor value_rowids values
    with_flat_values with_row_splits_dtype with_values
    """
)
# The class methods of RaggedTensor that `ClassMethod` layers may call.
RAGGED_CLASS_METHODS = _names(
    """
    from_nested_row_lengths from_nested_row_splits from_nested_value_rowids from_row_lengths from_row_limits
    from_row_splits from_row_starts from_sparse from_tensor from_uniform_row_length from_value_rowids
    """
)


def is_arithmetic(symbol: str) -> bool:
    """Return whether a public name of TensorFlow, as `'math.add'` or `'compat.v1.squeeze'`, is on the list."""
    name = symbol.removeprefix(_OF_V1)
    return name in _ARITHMETIC or name in _OF_KERAS


# Ops that a SavedModel may have, by the reason why they are harmless. With any inputs and attributes, none opens a
# file, a socket or a device of another machine, prints, or calls Python. Not every TensorFlow release has all of them.
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
        EncodeJpegVariableQuality EncodeJxl EncodePng EncodeWav ExtractGlimpse ExtractGlimpseV2 ExtractImagePatches
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

OPS = frozenset(name for names in _GROUPS.values() for name in names.split())

# Ops of the two functions of every SavedModel that save and restore its variables. Nothing calls these functions, which
# `saved_models.py` checks.
SAVERS = frozenset({"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"})
