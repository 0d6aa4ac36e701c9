// HTTP/1.1 to the service: a connection of each thread, kept open between calls.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opserve {

// Where the service is, and what every request says. Made once, by aclInit.
struct Endpoint {
    std::string host, port, authority, path;  // path: a prefix of every route, usually empty
    std::string headers;                      // Host and Authorization; a secret
    bool secure = false;
    std::string ca;  // a file in PEM; empty means the authorities of the system
};

// Reads OPSERVE_ADDRESS, OPSERVE_API_KEY, OPSERVE_CA and OPSERVE_ALLOW_PLAINTEXT.
Endpoint endpoint_of_environment();

struct Request {
    const char* method = "POST";
    std::string path;
    std::string headers;  // complete lines
    std::string_view body;
    void* into = nullptr;  // where a successful answer's body goes; null: into Answer::body
    size_t into_bytes = 0;
};

struct Answer {
    int status = 0;
    std::string body;
};

// Sends a request on this thread's connection. The service recognises a request that comes twice,
// so a request that a kept connection lost is sent once more on a new one.
Answer exchange(const Endpoint& endpoint, const Request& request);

// Calls an RPC by the Connect protocol, with messages of Protocol Buffers.
std::string call(const Endpoint& endpoint, const char* method, const std::string& message);

// The failure of an answer with an error status, in the form of Connect or of a REST route.
[[noreturn]] void throw_error(const Endpoint& endpoint, const Answer& answer);

}  // namespace opserve
