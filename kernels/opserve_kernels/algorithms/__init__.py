"""Algorithms for the products of a convolution's gradients in float32: one package each.

direct        chooses for a product: packed, dots, outer or winograd
packed        the image's gradient, and the forward convolution
dots, outer   the weight's gradient, of few channels and of many
correlation   what the direct ones share
winograd      transforms, behind ranges, which measures the operands
depthwise     groups of one channel
columns       any geometry, slow and small
fold          columns summed back into an image
codegen       the generated micro-kernels and copies that all of them use

In a package, `plan` has no loops and is imported by planners. `layout` is the record that plan and
loops share, `loops` are compiled, `cost` estimates cycles. `host` describes the computer.
"""
