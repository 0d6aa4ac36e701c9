// Messages of Protocol Buffers, written and read by field numbers, and strings of JSON errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opserve {

// A message in the making. A field of value 0, or empty, is left out unless it is `present`.
class Message {
public:
    Message& number(int field, uint64_t value);
    Message& present(int field, uint64_t value);
    Message& real(int field, double value);
    Message& text(int field, std::string_view value);
    Message& part(int field, const Message& value);
    Message& packed(int field, const std::vector<int64_t>& values);
    const std::string& bytes() const { return bytes_; }

private:
    void varint(uint64_t value);
    void bytes(int field, std::string_view value);
    std::string bytes_;
};

struct Field {
    int number = 0;
    uint64_t value = 0;      // of a number
    double real = 0;         // of a double
    std::string_view bytes;  // of a string or a message; a view into the message that was read
};

// The fields of a message, in its order; of malformed bytes those before the fault.
std::vector<Field> fields_of(std::string_view message);

// The last field of a number: all zeros and empty where the message has none.
Field field_of(std::string_view message, int number);

// The string member `key` of a JSON text, the first at or after `from`; empty where there is none.
std::string json_string(std::string_view text, std::string_view key, size_t from = 0);

std::string from_base64(std::string_view text);

}  // namespace opserve
