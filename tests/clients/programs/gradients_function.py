"""The scaled loss through tf.gradients within a tf.function, after a pattern from speech recognition. TF 2.3."""
import numpy as np
import tensorflow as tf
import tensorflow.keras.mixed_precision.experimental as mixed_precision


class Recognizer(tf.Module):
    def __init__(self, frames, vocabulary):
        super().__init__(name="recognizer")
        rng = np.random.RandomState(21)
        self.kernel = tf.Variable(rng.normal(0, 0.3, (frames, vocabulary)).astype("float32"))
        self.recurrent = tf.Variable((0.1 * np.eye(vocabulary)).astype("float32"))

    def __call__(self, signal):
        state = tf.zeros([tf.shape(signal)[0], self.recurrent.shape[0]])
        for frame in tf.unstack(signal, axis=1):
            state = tf.tanh(tf.matmul(frame, self.kernel) + tf.matmul(state, self.recurrent))
        return state


class Trainer:
    def __init__(self, config):
        self.config = config
        self.model = Recognizer(4, 3)
        self.optimizer = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(config["lr"]), "dynamic")
        self.metrics = {"loss": tf.keras.metrics.Mean("train_loss")}

    @tf.function(input_signature=[tf.TensorSpec([None, 3, 4], tf.float32), tf.TensorSpec([None], tf.int32)])
    def _train_step(self, signal, label):
        logits = self.model(signal)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        train_loss = tf.nn.compute_average_loss(losses, global_batch_size=self.config["batch_size"])
        scaled_train_loss = self.optimizer.get_scaled_loss(train_loss)
        scaled_gradients = tf.gradients(scaled_train_loss, self.model.trainable_variables)
        gradients = self.optimizer.get_unscaled_gradients(scaled_gradients)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        self.metrics["loss"].update_state(train_loss)

    def fit(self):
        rng = np.random.RandomState(self.config["seed"])
        for epoch in range(self.config["epochs"]):
            for _ in range(3):
                signal = rng.normal(size=(self.config["batch_size"], 3, 4)).astype("float32")
                self._train_step(tf.constant(signal), tf.constant(np.argmax(signal[:, 2, :3], -1), tf.int32))
            print(f"[epoch {epoch}] loss = {float(self.metrics['loss'].result()):.5f}")
        print("steps", int(self.optimizer.iterations), "scale", float(self.optimizer.loss_scale()))
        print([round(float(value), 4) for value in self.model.kernel.numpy()[0]])


if __name__ == "__main__":
    Trainer({"lr": 0.05, "batch_size": 4, "epochs": 3, "seed": 5}).fit()
