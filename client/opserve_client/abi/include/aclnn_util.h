/* Visibility of the operators' functions. */
#ifndef OPSERVE_ACLNN_UTIL_H
#define OPSERVE_ACLNN_UTIL_H

#define ACLNN_API __attribute__((visibility("default")))

#endif
