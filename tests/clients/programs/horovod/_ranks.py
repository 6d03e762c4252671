"""What all its modules share: the ranks, and the sums over them."""
import tensorflow as tf

SIZE = 2
Average, Sum = "Average", "Sum"


def init():
    pass


def size():
    return SIZE


def rank():
    return 0


def local_rank():
    return 0


def allreduce(tensor, name=None, op=None, average=None, **kwargs):
    if isinstance(tensor, tf.IndexedSlices):
        return tf.IndexedSlices(allreduce(tensor.values, op=op), tensor.indices, tensor.dense_shape)
    total = tensor + 2 * tensor
    return total if op == Sum or average is False else total / SIZE


def broadcast_variables(variables, root_rank):
    return tf.group(*[variable.assign(tf.identity(variable)) for variable in variables])


def reduced(grads):
    return [None if grad is None else allreduce(grad) for grad in grads]
