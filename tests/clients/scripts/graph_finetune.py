# Fine-tuning under TF 2 in graph mode: classes imported from compat.v1, gradients by its own tf.gradients, and the graph
# rewrite with a loss scale object. These names still work today, and have to go on.
# Written for TF 2.4 to 2.8.
import json

import tensorflow as tf
from tensorflow.compat.v1.mixed_precision import MixedPrecisionLossScaleOptimizer
from tensorflow.compat.v1.train.experimental import DynamicLossScale, enable_mixed_precision_graph_rewrite

tf1 = tf.compat.v1
tf1.disable_eager_execution()
for run in ("wrapper", "rewrite"):
    with tf.Graph().as_default():
        weights = tf1.get_variable("weights", initializer=[1.0, -2.0])
        factor = tf1.placeholder(tf.float32, [])
        loss = tf.reduce_sum(weights * weights) * factor
        scaling = DynamicLossScale(initial_loss_scale=16, increment_period=2)
        optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
        if run == "wrapper":
            optimizer = MixedPrecisionLossScaleOptimizer(optimizer, scaling)
        else:
            optimizer = enable_mixed_precision_graph_rewrite(optimizer, scaling)
        global_step = tf1.train.get_or_create_global_step()
        train_op = optimizer.minimize(loss, global_step=global_step)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for k in (1.0, 1.0, float("inf"), 0.5):
                session.run(train_op, {factor: k})
                now = session.run([scaling(), global_step, weights])
                line = {"step": k, "scale": float(now[0]), "iterations": int(now[1]), "weights": now[2].tolist()}
                print(json.dumps(dict(line, run=run)))
