// A TCP connection with time limits, plain or with TLS.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace opserve {

struct Endpoint;

// The connection is broken: nobody knows whether the service received the request.
class Broken : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class Tls;

class Socket {
public:
    // Throws Failure: 507901, nobody answers; 107000, the certificate is not accepted.
    explicit Socket(const Endpoint& endpoint);
    ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    void send_all(const void* data, size_t size);
    size_t receive(void* data, size_t size);  // at least 1 byte
    // Whether this process opened it, and to this endpoint.
    bool belongs_to(const Endpoint& endpoint) const;

private:
    friend class Tls;
    void send_plain(const void* data, size_t size);
    size_t receive_plain(void* data, size_t size);

    int fd_ = -1;
    int pid_;
    std::string authority_;
    std::unique_ptr<Tls> tls_;
};

// Sets the longest wait for an answer on connections that this thread opens from now on.
void limit_answers_of_this_thread(int seconds);

// Whether this library was built with OpenSSL.
bool has_tls();

}  // namespace opserve
