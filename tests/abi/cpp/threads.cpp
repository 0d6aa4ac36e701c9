// Eight threads call aclnnIm2col on one stream; the exit status is 0 if every result is right. The
// program ends without aclrtResetDevice.
#include <cstdio>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_im2col.h"

static const int THREADS = 8, CALLS = 6, IMAGE = 12, COLUMNS = 24;

static aclTensor* tensor(std::vector<int64_t> shape, void* address)
{
    return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                           shape.data(), shape.size(), address);
}

static aclIntArray* pair(int64_t value)
{
    const int64_t values[] = {value, value};
    return aclCreateIntArray(values, 2);
}

static bool call(aclrtStream stream, float first)
{
    float image[IMAGE], columns[COLUMNS] = {};
    for (int at = 0; at < IMAGE; ++at) image[at] = first + static_cast<float>(at);
    void *source = nullptr, *target = nullptr, *workspace = nullptr;
    int failed = aclrtMalloc(&source, sizeof image, ACL_MEM_MALLOC_HUGE_FIRST);
    failed |= aclrtMalloc(&target, sizeof columns, ACL_MEM_MALLOC_HUGE_FIRST);
    failed |= aclrtMemcpy(source, sizeof image, image, sizeof image, ACL_MEMCPY_HOST_TO_DEVICE);
    aclTensor *self = tensor({1, 3, 4}, source), *out = tensor({4, 6}, target);
    aclIntArray *kernel = pair(2), *ones = pair(1), *zeros = pair(0);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    failed |= aclnnIm2colGetWorkspaceSize(self, kernel, ones, zeros, ones, out, &size, &executor);
    if (size > 0) failed |= aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    failed |= aclnnIm2col(workspace, size, executor, stream);
    failed |= aclrtSynchronizeStream(stream);
    failed |= aclrtMemcpy(columns, sizeof columns, target, sizeof columns, ACL_MEMCPY_DEVICE_TO_HOST);
    for (void* address : {source, target, workspace}) {
        if (address != nullptr) failed |= aclrtFree(address);
    }
    aclDestroyTensor(self);
    aclDestroyTensor(out);
    for (aclIntArray* array : {kernel, ones, zeros}) aclDestroyIntArray(array);
    // The last row of the columns begins at element (1, 1) of the image.
    return failed == 0 && columns[0] == first && columns[18] == first + 5;
}

int main()
{
    aclrtStream stream = nullptr;
    int failed = aclInit(nullptr) | aclrtSetDevice(0) | aclrtCreateStream(&stream);
    std::vector<std::thread> threads;
    std::vector<int> right(THREADS, 0);
    for (int thread = 0; thread < THREADS; ++thread) {
        threads.emplace_back([&, thread] {
            if (aclrtSetDevice(0) != ACL_SUCCESS) return;
            for (int at = 0; at < CALLS; ++at) {
                right[thread] += call(stream, static_cast<float>(100 * thread + at)) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int count : right) failed |= count != CALLS;
    if (failed != 0) {
        const char* why = aclGetRecentErrMsg();
        std::printf("failed: %s\n", why != nullptr ? why : "another thread");
    }
    return failed != 0 ? 1 : 0;
}
