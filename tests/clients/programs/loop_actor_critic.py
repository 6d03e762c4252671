"""Two networks of an agent, each with a scaled Adam of its own; the gradients are clipped by their norm. TF 2.3, 2.4."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow.keras.mixed_precision import experimental as prec


class Adam(tf.Module):
    def __init__(self, name, modules, lr, clip=None, wdecay=None):
        super().__init__(name=name)
        self._modules = modules
        self._clip = clip
        self._wdecay = wdecay
        self._opt = prec.LossScaleOptimizer(tf.keras.optimizers.Adam(lr), "dynamic")

    @property
    def step(self):
        return self._opt.iterations

    @property
    def variables(self):
        return self._opt.variables()

    def __call__(self, tape, loss):
        variables = [var for module in self._modules for var in module.trainable_variables]
        with tape:
            loss = self._opt.get_scaled_loss(loss)
        grads = self._opt.get_unscaled_gradients(tape.gradient(loss, variables))
        norm = tf.linalg.global_norm(grads)
        if self._clip:
            grads, _ = tf.clip_by_global_norm(grads, self._clip, norm)
        if self._wdecay:
            for var in variables:
                var.assign((1 - self._wdecay) * var)
        self._opt.apply_gradients(zip(grads, variables))
        return norm


class Head(tf.Module):
    def __init__(self, seed, outputs):
        super().__init__()
        rng = np.random.RandomState(seed)
        self.w = tf.Variable(rng.normal(0, 0.5, (3, outputs)).astype("float32"))
        self.b = tf.Variable(tf.zeros([outputs]))

    def __call__(self, x):
        return tf.matmul(x, self.w) + self.b


def main(config):
    rng = np.random.RandomState(config.seed)
    actor, critic = Head(1, 2), Head(2, 1)
    actor_opt = Adam("actor", [actor], 0.02, clip=1.0)
    critic_opt = Adam("critic", [critic], 0.05, clip=100.0, wdecay=1e-3)

    @tf.function
    def train(obs, action, reward):
        with tf.GradientTape() as critic_tape:
            value = critic(obs)[:, 0]
            critic_loss = tf.reduce_mean(tf.square(value - reward))
        with tf.GradientTape() as actor_tape:
            logp = tf.reduce_sum(tf.nn.log_softmax(actor(obs)) * tf.one_hot(action, 2), -1)
            actor_loss = -tf.reduce_mean(logp * tf.stop_gradient(reward - value))
        return actor_loss, critic_loss, actor_opt(actor_tape, actor_loss), critic_opt(critic_tape, critic_loss)

    for step in range(config.steps):
        obs = rng.normal(size=(5, 3)).astype("float32")
        reward = obs.sum(-1)
        if step == 2:
            reward[0] = np.inf
        values = train(tf.constant(obs), tf.constant(rng.randint(0, 2, 5)), tf.constant(reward))
        print("step", step, "actor_loss %.4f critic_loss %.4f actor_norm %.4f critic_norm %.4f" % tuple(map(float, values)))
    print("actor steps", int(actor_opt.step), "variables", len(actor_opt.variables), len(critic_opt.variables))
    print("critic", " ".join("%.5f" % value for value in critic.w.numpy().ravel()))
    print("actor", " ".join("%.5f" % value for value in actor.w.numpy().ravel()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=3)
    main(parser.parse_args())
