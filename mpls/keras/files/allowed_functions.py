"""Functions of TensorFlow that a layer in a model's config may call under `safe_mode`: arithmetic on tensors only.

If TensorFlow is called on a symbolic tensor, tf_keras makes a layer `TFOpLambda` or `SlicingOpLambda`, whose config has
the public name of the function. tf_keras itself accepts any public name, also of functions that write files.
"""

from __future__ import annotations

from mpls.keras.files.allowed_names import FUNCTIONS, names

__all__ = ["INSTANCE_ATTRIBUTES", "RAGGED_CLASS_METHODS", "is_arithmetic"]

# By the module that exports them. None of them takes a function, a path or a device, and none prints or reads or writes
# files.
_BY_MODULE: dict[str, str] = {
    "": """
        abs accumulate_n acos acosh add add_n angle approx_top_k arg_max arg_min argmax argmin argsort as_string
        asin asinh atan atan2 atanh batch_gather batch_to_space batch_to_space_nd betainc bincount bitcast
        boolean_mask broadcast_dynamic_shape broadcast_static_shape broadcast_to cast ceil clip_by_average_norm
        clip_by_global_norm clip_by_norm clip_by_value complex concat confusion_matrix conj constant
        convert_to_tensor cos cosh count_nonzero cross cumprod cumsum depth_to_space dequantize diag diag_part
        digamma div div_no_nan divide dynamic_partition dynamic_stitch edit_distance eig eigvals einsum ensure_shape
        equal erf erfc exp expand_dims expm1 extract_image_patches extract_volume_patches eye fill fingerprint floor
        floor_div floordiv floormod gather gather_nd greater greater_equal histogram_fixed_width
        histogram_fixed_width_bins identity identity_n igamma igammac imag invert_permutation is_finite is_inf
        is_nan is_non_decreasing is_strictly_increasing lbeta less less_equal lgamma lin_space linspace log log1p
        log_sigmoid logical_and logical_not logical_or logical_xor matmul matrix_band_part matrix_determinant
        matrix_diag matrix_diag_part matrix_inverse matrix_set_diag matrix_solve matrix_solve_ls matrix_square_root
        matrix_transpose matrix_triangular_solve maximum meshgrid minimum mod multinomial multiply negative norm
        not_equal one_hot ones ones_like pad parallel_stack polygamma pow qr random_crop random_gamma random_normal
        random_poisson random_shuffle random_uniform range rank real realdiv reciprocal reduce_all reduce_any
        reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum repeat reshape reverse
        reverse_sequence reverse_v2 rint roll round rsqrt saturate_cast scalar_mul scatter_nd searchsorted
        segment_max segment_mean segment_min segment_prod segment_sum sequence_mask shape shape_n sigmoid sign sin
        sinh size slice sort space_to_batch space_to_batch_nd space_to_depth split sqrt square squared_difference
        squeeze stack stop_gradient strided_slice string_join string_split string_strip string_to_hash_bucket
        string_to_hash_bucket_fast string_to_hash_bucket_strong string_to_number substr subtract svd tan tanh
        tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub
        tensor_scatter_nd_update tensordot tile trace transpose truediv truncated_normal truncatediv truncatemod
        unique unique_with_counts unravel_index unsorted_segment_max unsorted_segment_mean unsorted_segment_min
        unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum unstack where where_v2 zeros zeros_like
        zeta
    """,
    "__operators__": """
        add eq getitem ne ragged_getitem
    """,
    "bitwise": """
        bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
    """,
    "dtypes": """
        cast complex saturate_cast
    """,
    "image": """
        adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_jpeg_quality adjust_saturation central_crop
        combined_non_max_suppression convert_image_dtype crop_and_resize crop_to_bounding_box decode_and_crop_jpeg
        decode_bmp decode_gif decode_image decode_jpeg decode_jxl decode_png decode_webp draw_bounding_boxes
        encode_jpeg encode_png extract_glimpse extract_image_patches extract_jpeg_shape extract_patches
        flip_left_right flip_up_down generate_bounding_box_proposals grayscale_to_rgb hsv_to_rgb image_gradients
        is_jpeg non_max_suppression non_max_suppression_overlaps non_max_suppression_padded
        non_max_suppression_with_scores pad_to_bounding_box per_image_standardization psnr random_brightness
        random_contrast random_crop random_flip_left_right random_flip_up_down random_hue random_jpeg_quality
        random_saturation resize resize_area resize_bicubic resize_bilinear resize_image_with_crop_or_pad
        resize_image_with_pad resize_images resize_nearest_neighbor resize_with_crop_or_pad resize_with_pad
        rgb_to_grayscale rgb_to_hsv rgb_to_yiq rgb_to_yuv rot90 sample_distorted_bounding_box sobel_edges ssim
        ssim_multiscale stateless_random_brightness stateless_random_contrast stateless_random_crop
        stateless_random_flip_left_right stateless_random_flip_up_down stateless_random_hue
        stateless_random_jpeg_quality stateless_random_saturation stateless_sample_distorted_bounding_box
        total_variation transpose transpose_image yiq_to_rgb yuv_to_rgb
    """,
    "io": """
        decode_and_crop_jpeg decode_base64 decode_bmp decode_gif decode_image decode_jpeg decode_png decode_raw
        decode_webp encode_base64 encode_jpeg encode_png extract_jpeg_shape is_jpeg
    """,
    "linalg": """
        adjoint band_part banded_triangular_solve cholesky cholesky_solve cross det diag diag_part eig eigh
        eigh_tridiagonal eigvals eigvalsh einsum expm eye global_norm inv l2_normalize logdet logm lstsq lu
        lu_matrix_inverse lu_reconstruct lu_solve matmul matrix_rank matrix_transpose matvec norm normalize pinv qr
        set_diag slogdet solve sqrtm svd tensor_diag tensor_diag_part tensordot trace transpose triangular_solve
        tridiagonal_matmul tridiagonal_solve
    """,
    "math": """
        abs accumulate_n acos acosh add add_n angle approx_max_k approx_min_k argmax argmin asin asinh atan atan2
        atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc bincount ceil confusion_matrix conj cos cosh
        count_nonzero cumprod cumsum cumulative_logsumexp digamma divide divide_no_nan equal erf erfc erfcinv erfinv
        exp expm1 floor floordiv floormod greater greater_equal igamma igammac imag in_top_k invert_permutation
        is_finite is_inf is_nan is_non_decreasing is_strictly_increasing l2_normalize lbeta less less_equal lgamma
        log log1p log_sigmoid log_softmax logical_and logical_not logical_or logical_xor maximum minimum mod
        multiply multiply_no_nan ndtri negative nextafter not_equal polygamma polyval pow real reciprocal
        reciprocal_no_nan reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max reduce_mean
        reduce_min reduce_prod reduce_std reduce_sum reduce_variance rint round rsqrt scalar_mul segment_max
        segment_mean segment_min segment_prod segment_sum sigmoid sign sin sinh sobol_sample softmax softplus
        softsign sqrt square squared_difference subtract tan tanh top_k truediv unsorted_segment_max
        unsorted_segment_mean unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n
        unsorted_segment_sum xdivy xlog1py xlogy zero_fraction zeta
    """,
    "math.special": """
        bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e
        bessel_y0 bessel_y1 dawsn expint fresnel_cos fresnel_sin spence
    """,
    "nn": """
        all_candidate_sampler approx_max_k approx_min_k atrous_conv2d atrous_conv2d_transpose avg_pool avg_pool1d
        avg_pool2d avg_pool3d avg_pool_v2 batch_norm_with_global_normalization batch_normalization bias_add
        compute_accidental_hits conv1d conv1d_transpose conv2d conv2d_backprop_filter conv2d_backprop_input
        conv2d_transpose conv3d conv3d_backprop_filter conv3d_backprop_filter_v2 conv3d_transpose conv_transpose
        convolution crelu ctc_beam_search_decoder ctc_beam_search_decoder_v2 ctc_greedy_decoder ctc_loss ctc_loss_v2
        ctc_unique_labels depth_to_space depthwise_conv2d depthwise_conv2d_backprop_filter
        depthwise_conv2d_backprop_input depthwise_conv2d_native depthwise_conv2d_native_backprop_filter
        depthwise_conv2d_native_backprop_input dilation2d dropout elu embedding_lookup embedding_lookup_sparse
        erosion2d fractional_avg_pool fractional_max_pool fused_batch_norm gelu in_top_k isotonic_regression l2_loss
        l2_normalize leaky_relu learned_unigram_candidate_sampler local_response_normalization log_poisson_loss
        log_softmax log_uniform_candidate_sampler lrn max_pool max_pool1d max_pool2d max_pool3d max_pool_v2
        max_pool_with_argmax moments nce_loss normalize_moments pool relu relu6 relu_layer
        safe_embedding_lookup_sparse sampled_softmax_loss selu separable_conv2d sigmoid
        sigmoid_cross_entropy_with_logits silu softmax softmax_cross_entropy_with_logits
        softmax_cross_entropy_with_logits_v2 softplus softsign space_to_batch space_to_depth
        sparse_softmax_cross_entropy_with_logits sufficient_statistics swish tanh top_k uniform_candidate_sampler
        weighted_cross_entropy_with_logits weighted_moments xw_plus_b zero_fraction
    """,
    "nn.experimental": """
        stateless_dropout
    """,
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
        all_candidate_sampler categorical fold_in gamma learned_unigram_candidate_sampler
        log_uniform_candidate_sampler multinomial normal poisson shuffle split stateless_binomial
        stateless_categorical stateless_gamma stateless_multinomial stateless_normal
        stateless_parameterized_truncated_normal stateless_poisson stateless_truncated_normal stateless_uniform
        truncated_normal uniform uniform_candidate_sampler
    """,
    "random.experimental": """
        index_shuffle stateless_fold_in stateless_shuffle stateless_split
    """,
    "sets": """
        difference intersection set_difference set_intersection set_size set_union size union
    """,
    "signal": """
        dct fft fft2d fft3d fftnd fftshift frame hamming_window hann_window idct ifft ifft2d ifft3d ifftnd ifftshift
        inverse_mdct inverse_stft irfft irfft2d irfft3d irfftnd kaiser_bessel_derived_window
        kaiser_window linear_to_mel_weight_matrix mdct mfccs_from_log_mel_spectrograms overlap_and_add rfft rfft2d
        rfft3d rfftnd stft vorbis_window
    """,
    "sparse": """
        add bincount concat cross cross_hashed expand_dims eye fill_empty_rows from_dense mask matmul maximum merge
        minimum reduce_max reduce_max_sparse reduce_sum reduce_sum_sparse reorder reset_shape reshape retain
        sampled_addmm segment_mean segment_sqrt_n segment_sum slice softmax sparse_dense_matmul split to_dense
        to_indicator transpose
    """,
    "strings": """
        as_string bytes_split format join length lower ngrams reduce_join regex_full_match regex_replace split strip
        substr to_hash_bucket to_hash_bucket_fast to_hash_bucket_strong to_number unicode_decode
        unicode_decode_with_offsets unicode_encode unicode_script unicode_split unicode_split_with_offsets
        unicode_transcode unsorted_segment_join upper
    """,
    "experimental.numpy": """
        abs absolute add all allclose amax amin angle any append arange arccos arccosh arcsin arcsinh arctan arctan2
        arctanh argmax argmin argsort around array array_equal asanyarray asarray ascontiguousarray atleast_1d
        atleast_2d atleast_3d average bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_arrays broadcast_to
        cbrt ceil clip compress concatenate conj conjugate copy cos cosh count_nonzero cross cumprod cumsum deg2rad
        diag diag_indices diagflat diagonal diff divide divmod dot dsplit dstack einsum empty empty_like equal exp
        exp2 expand_dims expm1 eye fabs fix flatten flip fliplr flipud float_power floor floor_divide full full_like
        gcd geomspace greater greater_equal heaviside hsplit hstack hypot identity imag inner isclose iscomplex
        isfinite isinf isnan isneginf isposinf isreal isscalar ix_ kron lcm less less_equal linspace log log10 log1p
        log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace matmul max maximum mean
        meshgrid min minimum mod moveaxis multiply nanmean nanprod nansum ndim negative nextafter nonzero not_equal
        ones ones_like outer pad polyval positive power prod ptp rad2deg ravel real reciprocal remainder repeat
        reshape roll rot90 round select shape sign signbit sin sinc sinh size sort split sqrt square squeeze stack
        std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace transpose tri tril triu
        true_divide vander var vdot vsplit vstack where zeros zeros_like
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
        stop_gradient sum tanh temporal_padding tile to_dense transpose truncated_normal var zeros_like
    """,
}

_ARITHMETIC = frozenset(
    f"{module}.{name}" if module else name for module, exported in _BY_MODULE.items() for name in exported.split()
)
_OF_KERAS = frozenset(f"keras.{module}.{name}" for module in ("activations", "losses", "metrics") for name in FUNCTIONS)
_OF_V1 = "compat.v1."

# The attributes of symbolic ragged and sparse tensors that `InstanceProperty` and `InstanceMethod` layers may read.
INSTANCE_ATTRIBUTES = names(
    """
    bounding_shape dense_shape flat_values indices merge_dims nested_row_lengths nested_row_splits
    nested_value_rowids nrows row_lengths row_limits row_splits row_starts to_sparse to_tensor value_rowids values
    with_flat_values with_row_splits_dtype with_values
    """
)
# The class methods of RaggedTensor that `ClassMethod` layers may call.
RAGGED_CLASS_METHODS = names(
    """
    from_nested_row_lengths from_nested_row_splits from_nested_value_rowids from_row_lengths from_row_limits
    from_row_splits from_row_starts from_sparse from_tensor from_uniform_row_length from_value_rowids
    """
)


def is_arithmetic(symbol: str) -> bool:
    """Return whether a public name of TensorFlow, as `'math.add'` or `'compat.v1.squeeze'`, is on the list."""
    name = symbol.removeprefix(_OF_V1)
    return name in _ARITHMETIC or name in _OF_KERAS
