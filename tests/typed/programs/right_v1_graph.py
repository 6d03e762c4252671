"""`mpls.v1` in a graph, with a Session."""

import tensorflow as tf

import mpls.v1

with tf.Graph().as_default():
    weights = tf.compat.v1.get_variable("weights", initializer=[1.0, 2.0])
    global_step = tf.compat.v1.train.get_or_create_global_step()
    opt = mpls.v1.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.MomentumOptimizer(0.1, 0.9), loss_scale="dynamic")
    train_op = opt.minimize(tf.reduce_sum(weights**2), global_step=global_step, gate_gradients=opt.GATE_GRAPH)
    pairs = opt.compute_gradients(tf.reduce_sum(weights**2), var_list=weights)
    clipped = [(tf.clip_by_norm(grad, 1.0), variable) for grad, variable in pairs]
    clipped_op = opt.apply_gradients(clipped, global_step, name="clipped")
    name: str = opt.get_name()
    slots: list[str] = opt.get_slot_names()
    with tf.compat.v1.Session() as session:
        assert session.run(opt.get_slot(weights, slots[0])).shape == (2,)
        state = opt.state_dict(session)
        opt.load_state_dict({**state, "scale": 1024.0}, session=session)
    assert len(opt.variables()) == 3

    rewritten = mpls.v1.enable_mixed_precision_graph_rewrite(tf.compat.v1.train.AdamOptimizer())
    rewritten.minimize(tf.reduce_sum(weights**2))
    mpls.v1.disable_mixed_precision_graph_rewrite()
