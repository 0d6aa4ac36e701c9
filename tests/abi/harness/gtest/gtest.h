// The part of GoogleTest that the vendor's unit tests use. The program prints a line for each test.
#pragma once

#include <cstdio>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace testing {

class Test {
public:
    virtual ~Test() = default;
    virtual void SetUp() {}
    virtual void TearDown() {}
    virtual void TestBody() = 0;
};

struct Case {
    std::string name;
    std::function<Test*()> make;
};

inline std::vector<Case>& cases()
{
    static std::vector<Case> all;
    return all;
}

inline std::string failures;  // of the test that runs

class Expectation {
public:
    Expectation(bool holds, const char* text, int line) : holds_(holds)
    {
        if (!holds) message_ << "line " << line << ": " << text;
    }
    ~Expectation()
    {
        if (!holds_) failures += message_.str() + "; ";
    }
    template <typename T>
    Expectation& operator<<(const T& value)
    {
        message_ << value;
        return *this;
    }

private:
    bool holds_;
    std::ostringstream message_;
};

}  // namespace testing

#define TEST_F(suite, name)                                                                     \
    class suite##_##name : public suite {                                                       \
        void TestBody() override;                                                               \
    };                                                                                          \
    static const bool suite##_##name##_added = (testing::cases().push_back({#suite "." #name, [] { \
        return static_cast<testing::Test*>(new suite##_##name);                                 \
    }}), true);                                                                                 \
    void suite##_##name::TestBody()
#define EXPECT_EQ(a, b) testing::Expectation((a) == (b), #a " == " #b, __LINE__)
#define EXPECT_NE(a, b) testing::Expectation((a) != (b), #a " != " #b, __LINE__)
