"""How the products of a convolution's gradients are computed in float32: a package for each way.

direct        chooses for a product: packed, dots, outer or winograd
packed        the image's gradient, and the forward convolution
dots, outer   the weight's gradient, of few channels and of many
correlation   what the direct ones share
winograd      transforms, behind ranges, which measures the operands
depthwise     groups of one channel
columns       any geometry, slow and small
fold          columns summed back into an image
codegen       the generated micro-kernels and copies that all of them use

In a package, `plan` has no loops and is imported by planners, `layout` is what plan and loops agree
on, `loops` are compiled, `cost` estimates cycles. `host` describes the computer.
"""
