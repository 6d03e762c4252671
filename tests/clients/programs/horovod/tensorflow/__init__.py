"""`horovod.tensorflow`: optimizers of TF 1, tapes, sums."""
import tensorflow as tf

from horovod._ranks import Average, Sum, allreduce, broadcast_variables, init, local_rank, rank, reduced, size  # noqa: F401

_tf1 = tf.compat.v1


class _DistributedOptimizer(_tf1.train.Optimizer):
    def __init__(self, optimizer, name=None):
        super(_DistributedOptimizer, self).__init__(name=name or "Distributed" + type(optimizer).__name__, use_locking=False)
        self._optimizer = optimizer

    def compute_gradients(self, *args, **kwargs):
        grads, variables = zip(*self._optimizer.compute_gradients(*args, **kwargs))
        return list(zip(reduced(grads), variables))

    def apply_gradients(self, *args, **kwargs):
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args, **kwargs):
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args, **kwargs):
        return self._optimizer.variables(*args, **kwargs)


def DistributedOptimizer(optimizer, name=None, **kwargs):
    if isinstance(optimizer, _tf1.train.Optimizer):
        return _DistributedOptimizer(optimizer, name)
    from horovod.tensorflow import keras

    return keras.DistributedOptimizer(optimizer)


class _Tape(tf.GradientTape):
    def __init__(self, tape):
        self.__dict__.update(tape.__dict__)

    def gradient(self, *args, **kwargs):
        return reduced(super().gradient(*args, **kwargs))


def DistributedGradientTape(tape, **kwargs):
    return type("DistributedGradientTape", (_Tape,), {})(tape)


class BroadcastGlobalVariablesHook(_tf1.train.SessionRunHook):
    def __init__(self, root_rank):
        self.root_rank = root_rank

    def begin(self):
        self.op = broadcast_variables(_tf1.global_variables(), self.root_rank)

    def after_create_session(self, session, coord):
        session.run(self.op)
