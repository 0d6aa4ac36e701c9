// Measures the C library: prints "name value" lines, times in milliseconds and memory in bytes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_im2col_backward.h"

static const int SEQUENCES = 200, COPIES = 15;
static const size_t LARGE = 64 << 20;
static aclrtStream stream = nullptr;

static void check(int code, const char* call)
{
    if (code == ACL_SUCCESS) return;
    const char* why = aclGetRecentErrMsg();
    std::fprintf(stderr, "%s: %d: %s\n", call, code, why != nullptr ? why : "");
    std::exit(1);
}
#define CHECK(call) check(call, #call)

template <typename Work>
static double milliseconds(Work work)
{
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

static double median(std::vector<double> values)
{
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

static long resident_bytes()
{
    long pages = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%*s %ld", &pages) != 1) std::exit(1);
    std::fclose(file);
    return pages * 4096;
}

static aclTensor* upload(const std::vector<float>& values, const std::vector<int64_t>& shape, void** address)
{
    const size_t size = values.size() * sizeof(float);
    CHECK(aclrtMalloc(address, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(*address, size, values.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
    return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                           shape.size(), *address);
}

static aclIntArray* pair(int64_t height, int64_t width)
{
    const int64_t values[] = {height, width};
    return aclCreateIntArray(values, 2);
}

// The vendor's sample: memory, copies, both phases, a wait, the result, and everything freed.
static void sequence()
{
    void *columns = nullptr, *image = nullptr, *workspace = nullptr;
    aclTensor* grad_output = upload({0.1f, 1.1f, 2.1f, 3.1f, 4.1f, 5.1f, 6.1f, 7.1f}, {4, 2}, &columns);
    aclTensor* out = upload({0}, {1, 1, 1}, &image);
    aclIntArray* arrays[] = {pair(1, 1), pair(2, 2), pair(1, 1), pair(1, 1), pair(1, 2)};
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnIm2colBackwardGetWorkspaceSize(grad_output, arrays[0], arrays[1], arrays[2], arrays[3], arrays[4],
                                              out, &size, &executor));
    CHECK(aclrtMalloc(&workspace, size > 0 ? size : 1, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclnnIm2colBackward(workspace, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    float result = 0;
    CHECK(aclrtMemcpy(&result, sizeof result, image, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST));
    for (void* address : {columns, image, workspace}) CHECK(aclrtFree(address));
    for (aclIntArray* array : arrays) aclDestroyIntArray(array);
    aclDestroyTensor(grad_output);
    aclDestroyTensor(out);
    check(result == 6.1f + 3.1f ? ACL_SUCCESS : 1, "the result");
}

static void copies()
{
    std::vector<char> host(LARGE, 1), other(LARGE, 2);
    void* device = nullptr;
    CHECK(aclrtMalloc(&device, LARGE, ACL_MEM_MALLOC_HUGE_FIRST));
    std::vector<double> to, from, plain;
    for (int at = 0; at <= COPIES; ++at) {
        host[0] = static_cast<char>(at);
        to.push_back(milliseconds([&] { CHECK(aclrtMemcpy(device, LARGE, host.data(), LARGE, ACL_MEMCPY_HOST_TO_DEVICE)); }));
        plain.push_back(milliseconds([&] { std::memcpy(other.data(), host.data(), LARGE); }));
        from.push_back(milliseconds([&] { CHECK(aclrtMemcpy(other.data(), LARGE, device, LARGE, ACL_MEMCPY_DEVICE_TO_HOST)); }));
        check(other == host ? ACL_SUCCESS : 1, "the bytes");
    }
    // The first copy maps the memory, and is not counted.
    for (std::vector<double>* times : {&to, &from, &plain}) times->erase(times->begin());
    std::printf("to_device %g\nfrom_device %g\nmemcpy %g\n", median(to), median(from), median(plain));
}

int main()
{
    std::printf("init %g\n", milliseconds([] { CHECK(aclInit(nullptr)); }));
    CHECK(aclrtSetDevice(0));
    std::printf("resident %ld\n", resident_bytes());
    CHECK(aclrtCreateStream(&stream));
    std::vector<double> sequences;
    for (int at = 0; at < SEQUENCES; ++at) sequences.push_back(milliseconds(sequence));
    std::printf("sequence %g\n", median(sequences));
    copies();
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
