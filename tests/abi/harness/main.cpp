// Runs the tests of the vendor's file that is linked with this one: "passed", "failed" or "other
// product", the test's name, and the broken expectations.
#include "acl/acl.h"
#include "gtest/gtest.h"
#include "opdev/platform.h"

int main()
{
    if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) {
        std::printf("%s\n", aclGetRecentErrMsg());
        return 1;
    }
    for (const testing::Case& one : testing::cases()) {
        const char* outcome = "passed";
        testing::failures.clear();
        try {
            testing::Test* test = one.make();
            test->SetUp();
            test->TestBody();
            test->TearDown();
        } catch (const op::OtherProduct&) {
            outcome = "other product";
        }
        if (!testing::failures.empty()) outcome = "failed";
        const char* why = testing::failures.empty() ? nullptr : aclGetRecentErrMsg();
        std::printf("%s\t%s\t%s%s\n", outcome, one.name.c_str(), testing::failures.c_str(),
                    why == nullptr ? "" : why);
        aclGetRecentErrMsg();
    }
    return aclrtResetDevice(0) | aclFinalize();
}
