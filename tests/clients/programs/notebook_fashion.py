#!/usr/bin/env python
# coding: utf-8

# # Mixed precision on small pictures
# Exported from a notebook of TF 2.3.

# In[1]:


import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.mixed_precision import experimental as mixed_precision


# In[2]:


policy = mixed_precision.Policy('mixed_float16')
mixed_precision.set_policy(policy)
print('Compute dtype: %s' % policy.compute_dtype)
print('Variable dtype: %s' % policy.variable_dtype)
loss_scale = policy.loss_scale
print('Loss scale: %s' % type(loss_scale).__name__, float(loss_scale()))


# In[3]:


np.random.seed(0)
x_train = np.random.randint(0, 256, (64, 6, 6)).reshape(64, 36).astype('float32') / 255
y_train = (x_train[:, :18].sum(-1) > x_train[:, 18:].sum(-1)).astype('int64')

kernel = tf.constant_initializer(np.random.normal(0, 0.2, (36, 8)))
inputs = keras.Input(shape=(36,), name='digits')
x = layers.Dense(8, activation='relu', name='dense_1', kernel_initializer=kernel)(inputs)
print('x.dtype: %s' % x.dtype.name)
x = layers.Dense(2, name='dense_logits', kernel_initializer=tf.constant_initializer(np.eye(8, 2)))(x)
outputs = layers.Activation('softmax', dtype='float32', name='predictions')(x)
model = keras.Model(inputs=inputs, outputs=outputs)
print('Outputs dtype: %s' % outputs.dtype.name)


# In[4]:


optimizer = keras.optimizers.RMSprop(0.01)
optimizer = mixed_precision.LossScaleOptimizer(optimizer, loss_scale='dynamic')
loss_object = tf.keras.losses.SparseCategoricalCrossentropy()
train_dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(16)


# In[5]:


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x)
        loss = loss_object(y, predictions)
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(scaled_gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


# In[6]:


for epoch in range(2):
    epoch_loss_avg = [float(train_step(x, y)) for x, y in train_dataset]
    print('Epoch {}: loss={:.3f}, scale={}'.format(epoch, np.mean(epoch_loss_avg), float(optimizer.loss_scale())))


# In[7]:


mixed_precision.set_policy('float32')
