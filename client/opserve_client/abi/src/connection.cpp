#include "connection.h"

#include <strings.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "failure.h"
#include "socket.h"
#include "wire.h"

namespace opserve {
namespace {

constexpr const char* DEFAULT_ADDRESS = "http://127.0.0.1:8080";
constexpr size_t HEAD_LIMIT = 1 << 16;
constexpr int OK_STATUS = 200;
constexpr int FIRST_ERROR_STATUS = 300;

thread_local std::unique_ptr<Socket> kept;

std::string variable(const char* name)
{
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const std::string& why)
{
    throw Failure(ACL_ERROR_RT_PARAM_INVALID, why);
}

bool is_loopback(const std::string& host)
{
    return host == "localhost" || host == "::1" || host.compare(0, 4, "127.") == 0;
}

bool is_true(const std::string& value)
{
    for (const char* word : {"1", "on", "true", "yes"}) {
        if (strcasecmp(value.c_str(), word) == 0) return true;
    }
    return false;
}

void split_authority(Endpoint& endpoint)
{
    const std::string& text = endpoint.authority;
    const size_t bracket = text.find(']');
    const size_t colon = text.find(':', bracket == std::string::npos ? 0 : bracket);
    endpoint.host = text.substr(0, colon);
    const char* usual = endpoint.secure ? "443" : "80";
    endpoint.port = colon == std::string::npos ? usual : text.substr(colon + 1);
    if (bracket != std::string::npos) endpoint.host = text.substr(1, bracket - 1);  // IPv6
    if (endpoint.host.empty()) refuse("OPSERVE_ADDRESS names no host: set it to http://HOST:PORT");
}

std::string headers_of(const Endpoint& endpoint, const std::string& key)
{
    std::string headers = "Host: " + endpoint.authority + "\r\n";
    if (key.empty()) return headers;
    if (key.find_first_of(" \t\r\n") != std::string::npos) {
        refuse("OPSERVE_API_KEY contains a blank or a line break: copy the whole key");
    }
    const bool allowed = endpoint.secure || is_loopback(endpoint.host) ||
        is_true(variable("OPSERVE_ALLOW_PLAINTEXT"));
    if (!allowed) {
        refuse("OPSERVE_API_KEY is not sent to " + endpoint.authority +
               " without TLS: use https://, or OPSERVE_ALLOW_PLAINTEXT=true in a trusted network");
    }
    return headers + "Authorization: Bearer " + key + "\r\n";
}

// An answer as it arrives: its head, then its body.
class Reader {
public:
    explicit Reader(Socket& socket) : socket_(socket) {}

    Answer read(const Request& request)
    {
        read_head();
        Answer answer;
        answer.status = std::atoi(head_.c_str() + std::strlen("HTTP/1.1 "));
        const std::string length = header("content-length");
        if (length.empty()) {
            throw Failure(ACL_ERROR_RT_SOCKET_CLOSE, "an answer has no Content-Length");
        }
        size_t size = std::strtoull(length.c_str(), nullptr, 10);
        char* into = static_cast<char*>(request.into);
        if (into == nullptr || answer.status >= FIRST_ERROR_STATUS) {
            answer.body.resize(size);
            into = answer.body.data();
        } else if (size != request.into_bytes) {
            throw Broken("an answer has another size than was requested");
        }
        const size_t here = rest_.copy(into, size);
        for (size_t at = here; at < size;) at += socket_.receive(into + at, size - at);
        return answer;
    }

    bool closes() const { return strcasecmp(header("connection").c_str(), "close") == 0; }

private:
    void read_head()
    {
        char bytes[4096];
        size_t end = 0;
        while ((end = head_.find("\r\n\r\n")) == std::string::npos) {
            if (head_.size() > HEAD_LIMIT) throw Broken("an answer's head does not end");
            head_.append(bytes, socket_.receive(bytes, sizeof bytes));
        }
        rest_ = head_.substr(end + 4);
        head_.resize(end + 2);
        if (head_.compare(0, 7, "HTTP/1.") != 0) {
            throw Failure(ACL_ERROR_RT_SOCKET_CLOSE,
                          "the program at OPSERVE_ADDRESS does not speak HTTP/1.1: use the address "
                          "of the service's HTTP API, not of gRPC");
        }
    }

    std::string header(const char* name) const
    {
        size_t at = head_.find("\r\n");
        for (; at + 2 < head_.size(); at = head_.find("\r\n", at + 2)) {
            const char* line = head_.c_str() + at + 2;
            const size_t length = std::strlen(name);
            if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
            const size_t start = head_.find_first_not_of(' ', at + 2 + length + 1);
            return head_.substr(start, head_.find("\r\n", start) - start);
        }
        return {};
    }

    Socket& socket_;
    std::string head_, rest_;
};

Answer exchange_on(Socket& socket, const Endpoint& endpoint, const Request& request, bool& closes)
{
    std::string head = std::string(request.method) + ' ' + endpoint.path + request.path +
        " HTTP/1.1\r\n" + endpoint.headers + request.headers +
        "Content-Length: " + std::to_string(request.body.size()) + "\r\n\r\n";
    constexpr size_t TOGETHER = 1 << 16;
    const bool together = request.body.size() <= TOGETHER;  // one packet instead of two
    if (together) head += request.body;
    socket.send_all(head.data(), head.size());
    if (!together) socket.send_all(request.body.data(), request.body.size());
    Reader reader(socket);
    Answer answer = reader.read(request);
    closes = reader.closes();
    return answer;
}

}  // namespace

Endpoint endpoint_of_environment()
{
    std::string address = variable("OPSERVE_ADDRESS");
    if (address.empty()) address = DEFAULT_ADDRESS;
    const size_t colon = address.find("://");
    const std::string scheme = colon == std::string::npos ? "" : address.substr(0, colon);
    if (scheme != "http" && scheme != "https") {
        refuse("OPSERVE_ADDRESS=" + address + " is not the service's HTTP address: set it to " +
               "http://HOST:PORT, of a service on this machine " + DEFAULT_ADDRESS);
    }
    Endpoint endpoint;
    endpoint.secure = scheme == "https";
    if (endpoint.secure && !has_tls()) {
        refuse("this library was built without OpenSSL, so it cannot use https://: install its "
               "headers (libssl-dev) and run `opserve abi build` again, or use a tunnel");
    }
    const std::string rest = address.substr(colon + 3);
    const size_t slash = rest.find('/');
    endpoint.authority = rest.substr(0, slash);
    if (slash != std::string::npos) endpoint.path = rest.substr(slash);
    while (!endpoint.path.empty() && endpoint.path.back() == '/') endpoint.path.pop_back();
    endpoint.ca = variable("OPSERVE_CA");
    split_authority(endpoint);
    endpoint.headers = headers_of(endpoint, variable("OPSERVE_API_KEY"));
    return endpoint;
}

Answer exchange(const Endpoint& endpoint, const Request& request)
{
    // A child process got the descriptor by fork, and its parent goes on with the connection.
    if (kept && !kept->belongs_to(endpoint)) kept.reset();
    for (bool again = kept != nullptr;; again = false) {
        auto socket = kept ? std::move(kept) : std::make_unique<Socket>(endpoint);
        try {
            bool closes = false;
            Answer answer = exchange_on(*socket, endpoint, request, closes);
            if (!closes) kept = std::move(socket);
            return answer;
        } catch (const Broken& broken) {
            if (again) continue;
            throw Failure(ACL_ERROR_RT_SOCKET_CLOSE, "the connection to " + endpoint.authority +
                              " broke (" + broken.what() + ")");
        }
    }
}

std::string call(const Endpoint& endpoint, const char* method, const std::string& message)
{
    Request request;
    request.path = std::string("/opserve.v1.") + method;
    request.headers = "Content-Type: application/proto\r\nConnect-Protocol-Version: 1\r\n";
    request.body = message;
    Answer answer = exchange(endpoint, request);
    if (answer.status != OK_STATUS) throw_error(endpoint, answer);
    return std::move(answer.body);
}

void throw_error(const Endpoint& endpoint, const Answer& answer)
{
    const size_t detail = answer.body.find("google.rpc.ErrorInfo");
    if (detail != std::string::npos) {
        const std::string info = from_base64(json_string(answer.body, "value", detail));
        for (const Field& entry : fields_of(info)) {
            if (entry.number != 3 || field_of(entry.bytes, 1).bytes != "code") continue;
            const std::string code(field_of(entry.bytes, 2).bytes);
            throw Failure(std::atoi(code.c_str()), json_string(answer.body, "message"));
        }
    }
    const std::string sentence = json_string(answer.body, "detail");
    const size_t code = answer.body.find("\"code\":");
    if (!sentence.empty() && code != std::string::npos) {
        throw Failure(std::atoi(answer.body.c_str() + code + std::strlen("\"code\":")), sentence);
    }
    throw Failure(ACL_ERROR_RT_SOCKET_CLOSE, endpoint.authority + " answers HTTP " +
                      std::to_string(answer.status) + ": is OPSERVE_ADDRESS that of a service?");
}

}  // namespace opserve
