"""try the newest import first, then the one before, and a stub at last. TF 2.2, 2.3, 2.4."""
import tensorflow as tf

try:
    from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer, global_policy, set_policy
    FLAVOUR = "experimental"
except ImportError:
    try:
        from tensorflow.keras.mixed_precision import LossScaleOptimizer, global_policy
        from tensorflow.keras.mixed_precision import set_global_policy as set_policy
        FLAVOUR = "released"
    except ImportError:
        LossScaleOptimizer = global_policy = set_policy = None
        FLAVOUR = "none"

HAS_MIXED = LossScaleOptimizer is not None


def scope(name):
    class Scope(object):
        def __enter__(self):
            self.previous = global_policy()
            set_policy(name)

        def __exit__(self, *args):
            set_policy(self.previous)

    return Scope()


def unscaled(optimizer, tape, loss, variables):
    if not HAS_MIXED or not isinstance(optimizer, LossScaleOptimizer):
        return tape.gradient(loss, variables)
    with tape:
        loss = optimizer.get_scaled_loss(loss)
    return optimizer.get_unscaled_gradients(tape.gradient(loss, variables))


def main():
    print("flavour", FLAVOUR)
    with scope("mixed_float16"):
        print("inside", global_policy().name)
    print("outside", global_policy().name)
    optimizers = {"plain": tf.keras.optimizers.SGD(0.1), "fixed": None, "dynamic": None}
    if HAS_MIXED:
        optimizers["fixed"] = LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 32)
        optimizers["dynamic"] = LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), "dynamic")
    for name, optimizer in sorted(optimizers.items()):
        v = tf.Variable([2.0, 1.0])
        for number in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.exp(v))
            optimizer.apply_gradients(zip(unscaled(optimizer, tape, loss, [v]), [v]))
            print(name, number, "loss %.5f" % float(loss), "v", [round(float(value), 5) for value in v.numpy()])


main()
