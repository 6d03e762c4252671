# Horovod's optimizer is inside, the scaling one around it: gradients are summed scaled, then checked. TF 1.15.
import argparse

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def build(args):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.get_variable("w", [3, 1], initializer=tf.constant_initializer([0.1, 0.2, 0.3]))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
    opt = tf.train.AdamOptimizer(args.lr * hvd.size(), beta2=0.99)
    opt = hvd.DistributedOptimizer(opt)
    if args.amp:
        scaling = tf.train.experimental.DynamicLossScale(initial_loss_scale=2 ** 15, increment_period=2)
        opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(opt, scaling)
    step = tf.train.get_or_create_global_step()
    return x, w, loss, scaling(), step, opt.minimize(loss, global_step=step)


def main(args):
    hvd.init()
    tf.set_random_seed(hvd.rank())
    x, w, loss, scale, step, train_op = build(args)
    hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=5)]
    rng = np.random.RandomState(0)
    with tf.train.MonitoredTrainingSession(hooks=hooks, config=tf.ConfigProto()) as sess:
        number = 0
        while not sess.should_stop():
            batch = rng.rand(4, 3)
            if number == 1:
                # A broken record.
                batch = batch * 1e18
            number += 1
            _, value = sess.run([train_op, loss], {x: batch})
            if hvd.rank() == 0:
                print("batch %d loss %.4g" % (number, value))
                if not sess.should_stop():
                    print("  step %d scale %d w %s" % tuple(
                        [f(v) for f, v in zip((int, int, lambda v: np.round(v.ravel(), 4).tolist()), sess.run([step, scale, w], {x: batch}))]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--no-amp", dest="amp", action="store_false")
    main(parser.parse_args())
