"""{fp,hp}_deconv_grad_filter_{s,p}: the gradient of a deconvolution with respect to its weight."""
