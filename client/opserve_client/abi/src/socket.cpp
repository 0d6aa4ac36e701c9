#include "socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "connection.h"
#include "failure.h"

#ifdef OPSERVE_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

namespace opserve {
namespace {

constexpr int CONNECT_TIMEOUT_S = 5;
constexpr int SILENCE_S = 10;          // then probes of the kernel find out about a dead host
constexpr int PROBES = 3;

thread_local int answer_timeout_s = 330;  // a service ends every call after 300 s

void set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

void set_timeouts(int fd, int seconds)
{
    const timeval limit{seconds, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

int connected_to(const addrinfo& address)
{
    const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0);
    if (fd < 0) return fd;
    set_timeouts(fd, CONNECT_TIMEOUT_S);
    if (connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
        const int reason = errno;
        close(fd);
        errno = reason;
        return -1;
    }
    set_timeouts(fd, answer_timeout_s);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, SILENCE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, SILENCE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    return fd;
}

int connected_to(const Endpoint& endpoint)
{
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int unknown = getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found);
    std::string reason = unknown == 0 ? "" : gai_strerror(unknown);
    int fd = -1;
    for (addrinfo* one = found; one != nullptr && fd < 0; one = one->ai_next) {
        fd = connected_to(*one);
        if (fd < 0) reason = std::strerror(errno);
    }
    if (found != nullptr) freeaddrinfo(found);
    if (fd >= 0) return fd;
    throw Failure(ACL_ERROR_RT_SOCKET_CLOSE, "no service answers at " + endpoint.authority + " (" +
                      reason + "): start one, or set OPSERVE_ADDRESS to its HTTP address");
}

}  // namespace

#ifdef OPSERVE_TLS

// TLS over the socket's own calls: OpenSSL's would raise SIGPIPE for a closed connection.
class Tls {
public:
    Tls(Socket& socket, const Endpoint& endpoint) : socket_(socket)
    {
        context_ = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
        const bool known = endpoint.ca.empty()
            ? SSL_CTX_set_default_verify_paths(context_) == 1
            : SSL_CTX_load_verify_locations(context_, endpoint.ca.c_str(), nullptr) == 1;
        if (!known) refuse("OPSERVE_CA=" + endpoint.ca + " contains no certificate");
        tls_ = SSL_new(context_);
        in_ = BIO_new(BIO_s_mem());
        out_ = BIO_new(BIO_s_mem());
        SSL_set_bio(tls_, in_, out_);
        X509_VERIFY_PARAM* checks = SSL_get0_param(tls_);
        if (X509_VERIFY_PARAM_set1_ip_asc(checks, endpoint.host.c_str()) != 1) {
            SSL_set1_host(tls_, endpoint.host.c_str());
            SSL_set_tlsext_host_name(tls_, endpoint.host.c_str());
        }
        try {
            until_done([this] { return SSL_connect(tls_); });
        } catch (const Broken&) {
            const long verdict = SSL_get_verify_result(tls_);
            if (verdict == X509_V_OK) refuse(endpoint.authority + " does not speak TLS");
            refuse("the certificate of " + endpoint.authority + " is not accepted (" +
                   X509_verify_cert_error_string(verdict) + "): name its authority in OPSERVE_CA");
        }
    }

    ~Tls() { release(); }

    void send_all(const void* data, size_t size)
    {
        const auto* bytes = static_cast<const char*>(data);
        while (size > 0) {
            const int part = size > PART ? static_cast<int>(PART) : static_cast<int>(size);
            const int sent = until_done([&] { return SSL_write(tls_, bytes, part); });
            bytes += sent;
            size -= static_cast<size_t>(sent);
        }
    }

    size_t receive(void* data, size_t size)
    {
        const int part = size > PART ? static_cast<int>(PART) : static_cast<int>(size);
        return static_cast<size_t>(until_done([&] { return SSL_read(tls_, data, part); }));
    }

private:
    static constexpr size_t PART = 1 << 16;

    [[noreturn]] void refuse(const std::string& why)
    {
        release();
        throw Failure(ACL_ERROR_RT_PARAM_INVALID, why);
    }

    void release()
    {
        SSL_free(tls_);  // with both BIOs
        SSL_CTX_free(context_);
        tls_ = nullptr;
        context_ = nullptr;
    }

    template <typename Step>
    int until_done(Step step)
    {
        for (;;) {
            ERR_clear_error();
            const int result = step();
            flush();
            if (result > 0) return result;
            if (SSL_get_error(tls_, result) != SSL_ERROR_WANT_READ) throw Broken("TLS failed");
            char bytes[PART];
            const size_t received = socket_.receive_plain(bytes, sizeof bytes);
            BIO_write(in_, bytes, static_cast<int>(received));
        }
    }

    void flush()
    {
        char bytes[PART];
        for (int size = 0; (size = BIO_read(out_, bytes, sizeof bytes)) > 0;) {
            socket_.send_plain(bytes, static_cast<size_t>(size));
        }
    }

    Socket& socket_;
    SSL_CTX* context_ = nullptr;
    SSL* tls_ = nullptr;
    BIO* in_ = nullptr;
    BIO* out_ = nullptr;
};

bool has_tls() { return true; }

#else

class Tls {
public:
    Tls(Socket&, const Endpoint&) {}
    void send_all(const void*, size_t) {}
    size_t receive(void*, size_t) { return 0; }
};

bool has_tls() { return false; }

#endif

void limit_answers_of_this_thread(int seconds) { answer_timeout_s = seconds; }

Socket::Socket(const Endpoint& endpoint)
    : fd_(connected_to(endpoint)), pid_(getpid()), authority_(endpoint.authority)
{
    if (!endpoint.secure) return;
    try {
        tls_ = std::make_unique<Tls>(*this, endpoint);
    } catch (...) {
        close(fd_);
        throw;
    }
}

Socket::~Socket() { close(fd_); }

bool Socket::belongs_to(const Endpoint& endpoint) const
{
    return pid_ == getpid() && authority_ == endpoint.authority;
}

void Socket::send_all(const void* data, size_t size)
{
    tls_ ? tls_->send_all(data, size) : send_plain(data, size);
}

size_t Socket::receive(void* data, size_t size)
{
    return tls_ ? tls_->receive(data, size) : receive_plain(data, size);
}

void Socket::send_plain(const void* data, size_t size)
{
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
        const ssize_t sent = send(fd_, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) throw Broken(std::strerror(errno));
        bytes += sent;
        size -= static_cast<size_t>(sent);
    }
}

size_t Socket::receive_plain(void* data, size_t size)
{
    for (;;) {
        const ssize_t received = recv(fd_, data, size, 0);
        if (received > 0) return static_cast<size_t>(received);
        if (received == 0) throw Broken("the service closed the connection");
        if (errno == EAGAIN) {
            throw Failure(ACL_ERROR_RT_WAIT_TIMEOUT, "the service does not answer");
        }
        if (errno != EINTR) throw Broken(std::strerror(errno));
    }
}

}  // namespace opserve
