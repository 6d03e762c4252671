"""A functional model of two outputs under the new API, by compile and fit. TF 2.4 to 2.8."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, mixed_precision


def weights(shape, seed):
    return tf.keras.initializers.Constant(np.random.RandomState(seed).normal(0, 0.3, shape))


def build():
    image = layers.Input((4, 4, 1), name="image")
    x = layers.Conv2D(4, 3, padding="same", activation="relu", kernel_initializer=weights((3, 3, 1, 4), 1))(image)
    x = layers.GlobalAveragePooling2D()(x)
    kind = layers.Dense(3, kernel_initializer=weights((4, 3), 2))(x)
    kind = layers.Activation("softmax", dtype="float32", name="kind")(kind)
    size = layers.Dense(1, dtype="float32", kernel_initializer=weights((4, 1), 3), name="size")(x)
    return tf.keras.Model(image, [kind, size])


def main():
    mixed_precision.set_global_policy("mixed_float16")
    print("compute", mixed_precision.global_policy().compute_dtype, "variables", mixed_precision.global_policy().variable_dtype)
    rng = np.random.RandomState(4)
    images = rng.uniform(0, 1, (12, 4, 4, 1)).astype("float32")
    kinds = rng.randint(0, 3, 12)
    sizes = images.sum((1, 2, 3))
    model = build()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(1e-2),
        loss={"kind": "sparse_categorical_crossentropy", "size": "mse"},
        loss_weights={"kind": 1.0, "size": 0.25},
    )
    history = model.fit(images, {"kind": kinds, "size": sizes}, batch_size=6, epochs=5, shuffle=False, verbose=0)
    for epoch, (loss, kind, size) in enumerate(zip(*(history.history[key] for key in ("loss", "kind_loss", "size_loss")))):
        print(f"epoch {epoch}: loss {loss:.2f} kind {kind:.4f} size {size:.3f}")
    optimizer = model.optimizer
    print(type(optimizer).__name__, float(optimizer.loss_scale), int(optimizer.dynamic_counter), int(optimizer.iterations))
    mixed_precision.set_global_policy("float32")


if __name__ == "__main__":
    main()
