# In[ ]:
# A notebook that was run cell by cell: the optimizer is wrapped again in each run of a cell. TF 2.2, 2.3.
import numpy as np
import tensorflow as tf

print(tf.executing_eagerly())

# In[ ]:
AUTO = tf.data.experimental.AUTOTUNE
MIXED_PRECISION = True
if MIXED_PRECISION:
    policy = tf.keras.mixed_precision.experimental.Policy("mixed_float16")
    tf.keras.mixed_precision.experimental.set_policy(policy)
    print("Mixed precision enabled")
tf.keras.mixed_precision.experimental.set_policy("float32")

# In[ ]:
values = np.linspace(-1, 1, 16).astype("float32").reshape(8, 2)
ds = tf.data.Dataset.from_tensor_slices(values).map(lambda row: row * 2.0, num_parallel_calls=AUTO).batch(4).prefetch(AUTO)

# In[ ]:
w = tf.Variable([[0.5], [0.25]])


def run_cell(loss_scale):
    optimizer = tf.keras.optimizers.Adagrad(0.1)
    optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(optimizer, loss_scale)
    for batch in ds:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(batch, w) - 1.0))
            scaled = optimizer.get_scaled_loss(loss)
        optimizer.apply_gradients(zip(optimizer.get_unscaled_gradients(tape.gradient(scaled, [w])), [w]))
        print("%.5f" % loss.numpy(), end=" ")
    print("| scale", float(optimizer.loss_scale()), "|", type(optimizer.loss_scale).__name__)


# In[ ]:
for loss_scale in ("dynamic", 1, 64.0, tf.mixed_precision.experimental.FixedLossScale(16)):
    run_cell(loss_scale)

# In[ ]:
print(w.numpy().round(4).tolist())
