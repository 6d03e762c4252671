"""The private modules of Keras: loss_scale_optimizer, policy, and the state behind names with underscores. TF 2.2, 2.3."""
import tensorflow as tf
from tensorflow.python.keras.mixed_precision.experimental import loss_scale_optimizer as lso
from tensorflow.python.keras.mixed_precision.experimental import policy as policy_module
from tensorflow.python.training.experimental import loss_scale as loss_scale_module


def unwrap(optimizer):
    return optimizer._optimizer if isinstance(optimizer, lso.LossScaleOptimizer) else optimizer


def log_state(step, optimizer):
    scale = optimizer._loss_scale
    print("step %d scale %g good %d period %d" % (
        step, scale._current_loss_scale.numpy(), scale._num_good_steps.numpy(), scale._increment_period))


def main():
    policy = policy_module.Policy("mixed_float16", loss_scale=loss_scale_module.FixedLossScale(8.0))
    print(policy.name, type(policy.loss_scale).__name__, policy.loss_scale().numpy())
    with policy_module.policy_scope("mixed_float16"):
        print("in the scope", policy_module.global_policy().name)
    print("after it", policy_module.global_policy().name)
    scale = loss_scale_module.get("dynamic")
    print(type(scale).__name__, loss_scale_module.get(3)().numpy(), loss_scale_module.get(None))
    opt = lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25), loss_scale_module.DynamicLossScale(64, 2, 4.0))
    v = tf.Variable([4.0, 2.0])
    for step, k in enumerate((1.0, 1.0, float("inf"), 1.0)):
        grads = opt.get_unscaled_gradients([tf.constant([1.0, 0.5]) * k * opt._loss_scale()])
        opt.apply_gradients([(grads[0], v)])
        log_state(step, opt)
    print(type(unwrap(opt)).__name__, v.numpy().tolist(), int(unwrap(opt).iterations))


if __name__ == "__main__":
    main()
