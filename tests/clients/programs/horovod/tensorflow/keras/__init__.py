"""`horovod.tensorflow.keras`: a class of the optimizer's own name, made by its config, which sums before it applies."""
import tensorflow as tf

from horovod._ranks import broadcast_variables, init, local_rank, rank, reduced, size  # noqa: F401


def DistributedOptimizer(optimizer, **kwargs):
    base = type(optimizer)

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        grads, variables = zip(*grads_and_vars)
        return super(cls, self).apply_gradients(list(zip(reduced(grads), variables)), *args, **kwargs)

    cls = type(base.__name__, (base,), {"apply_gradients": apply_gradients, "_HAS_AGGREGATE_GRAD": False})
    return cls.from_config(optimizer.get_config())


class BroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    def __init__(self, root_rank):
        super().__init__()
        self.root_rank = root_rank
        self.done = False

    def on_batch_end(self, batch, logs=None):
        if not self.done:
            broadcast_variables(self.model.trainable_variables, self.root_rank)
            self.done = True
