#include "wire.h"

#include <cstring>

namespace opserve {
namespace {

enum Kind { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

bool read_varint(std::string_view& rest, uint64_t& value)
{
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (rest.empty()) return false;
        const auto byte = static_cast<unsigned char>(rest.front());
        rest.remove_prefix(1);
        value |= static_cast<uint64_t>(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

bool read_payload(std::string_view& rest, uint64_t kind, Field& field)
{
    uint64_t size = 8;
    if (kind == VARINT) return read_varint(rest, field.value);
    if (kind == FIXED32) size = 4;
    if (kind == BYTES && !read_varint(rest, size)) return false;
    if ((kind != FIXED64 && kind != BYTES && kind != FIXED32) || size > rest.size()) return false;
    field.bytes = rest.substr(0, size);
    if (kind == FIXED64) std::memcpy(&field.real, rest.data(), sizeof field.real);
    rest.remove_prefix(size);
    return true;
}

// The code point of the four hexadecimal digits of \uXXXX, in UTF-8. Surrogates come out one by
// one: a message of the service has its other characters as they are.
std::string utf8_of(std::string_view digits)
{
    const auto point = static_cast<unsigned>(std::stoul(std::string(digits), nullptr, 16));
    const auto byte = [](unsigned value) { return static_cast<char>(value); };
    if (point < 0x80) return {byte(point)};
    if (point < 0x800) return {byte(0xC0 | point >> 6), byte(0x80 | (point & 0x3F))};
    return {byte(0xE0 | point >> 12), byte(0x80 | (point >> 6 & 0x3F)), byte(0x80 | (point & 0x3F))};
}

std::string unescaped(std::string_view rest)
{
    std::string text;
    for (size_t at = 0; at < rest.size() && rest[at] != '"'; ++at) {
        if (rest[at] != '\\' || at + 1 == rest.size()) {
            text += rest[at];
            continue;
        }
        const char escape = rest[++at];
        const bool has_digits = escape == 'u' && at + 4 < rest.size() &&
            rest.substr(at + 1, 4).find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
        if (has_digits) {
            text += utf8_of(rest.substr(at + 1, 4));
            at += 4;
        } else {
            text += escape == 'n' ? '\n' : escape == 't' ? '\t' : escape;
        }
    }
    return text;
}

}  // namespace

void Message::varint(uint64_t value)
{
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
}

void Message::bytes(int field, std::string_view value)
{
    varint(static_cast<uint64_t>(field) << 3 | BYTES);
    varint(value.size());
    bytes_ += value;
}

Message& Message::present(int field, uint64_t value)
{
    varint(static_cast<uint64_t>(field) << 3 | VARINT);
    varint(value);
    return *this;
}

Message& Message::number(int field, uint64_t value)
{
    return value == 0 ? *this : present(field, value);
}

Message& Message::real(int field, double value)
{
    if (value == 0) return *this;
    varint(static_cast<uint64_t>(field) << 3 | FIXED64);
    char packed[sizeof value];
    std::memcpy(packed, &value, sizeof value);
    bytes_.append(packed, sizeof packed);
    return *this;
}

Message& Message::text(int field, std::string_view value)
{
    if (!value.empty()) bytes(field, value);
    return *this;
}

Message& Message::part(int field, const Message& value)
{
    bytes(field, value.bytes_);
    return *this;
}

Message& Message::packed(int field, const std::vector<int64_t>& values)
{
    Message entries;
    for (const int64_t value : values) entries.varint(static_cast<uint64_t>(value));
    if (!values.empty()) bytes(field, entries.bytes_);
    return *this;
}

std::vector<Field> fields_of(std::string_view message)
{
    std::vector<Field> fields;
    uint64_t tag = 0;
    while (!message.empty() && read_varint(message, tag)) {
        Field field;
        field.number = static_cast<int>(tag >> 3);
        if (!read_payload(message, tag & 7, field)) break;
        fields.push_back(field);
    }
    return fields;
}

Field field_of(std::string_view message, int number)
{
    Field found;
    for (const Field& field : fields_of(message)) {
        if (field.number == number) found = field;
    }
    return found;
}

std::string json_string(std::string_view text, std::string_view key, size_t from)
{
    const std::string quoted = '"' + std::string(key) + '"';
    size_t at = text.find(quoted, from);
    for (; at != std::string::npos; at = text.find(quoted, at + 1)) {
        const size_t colon = text.find_first_not_of(" \t\r\n", at + quoted.size());
        if (colon == std::string::npos || text[colon] != ':') continue;  // a value, not a key
        const size_t start = text.find_first_not_of(" \t\r\n", colon + 1);
        if (start != std::string::npos && text[start] == '"') {
            return unescaped(text.substr(start + 1));
        }
    }
    return {};
}

std::string from_base64(std::string_view text)
{
    static const std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned bits = 0;
    int count = 0;
    for (const char digit : text) {
        const size_t value = digits.find(digit);
        if (value == std::string::npos) break;
        bits = bits << 6 | static_cast<unsigned>(value);
        count += 6;
        if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8));
    }
    return bytes;
}

}  // namespace opserve
