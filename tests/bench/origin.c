/*
 * The origin of the benchmark: far faster than what is measured in front of it.
 *
 * Listens on 127.0.0.1, prints its port, answers until standard input closes (an hour at most). A TLS record (the
 * client's hello) is answered by REPLY bytes; "D" and a 64-bit count in host order by that many bytes; "G..." up to
 * an empty line by a tiny HTTP response; "Q", and a request that says so, by closing. It is the origin that closes
 * short connections, so that the TIME_WAIT states gather at listening ports: elsewhere they would eat the ephemeral
 * ports within seconds, and slow down the subjects, each in its own way. poll() and not epoll: few descriptors, and
 * every platform has it.
 */
#include "wire.h"

static const char RESPONSE[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok";
static char bulk[BULK];

/* Length of the message that begins at `data`: 0 = not complete yet, -1 = not one of ours. */
static long message(const uint8_t *data, size_t have) {
    if (have == 0) return 0;
    if (data[0] == 0x16) {
        size_t need = have < 5 ? BUFFER : 5 + (size_t)(data[3] << 8 | data[4]);
        return have >= need ? (long)need : 0;
    }
    if (data[0] == 'Q') return 1;
    if (data[0] == 'D') return have >= 9 ? 9 : 0;
    const uint8_t *end = memmem(data, have, "\r\n\r\n", 4);
    return data[0] != 'G' ? -1 : end ? end + 4 - data : 0;
}

struct peer { uint64_t source; size_t have; uint8_t data[BUFFER]; };

static struct pollfd fds[SLOTS];
static struct peer *peers[SLOTS];

/* Answers every complete message; false = the connection is over. */
static int answer(int fd, struct peer *peer) {
    ssize_t got = recv(fd, peer->data + peer->have, BUFFER - peer->have, 0);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    peer->have += (size_t)got;
    for (long length; peer->have > 0; peer->have -= (size_t)length) {
        if ((length = message(peer->data, peer->have)) <= 0) return length == 0 && peer->have < BUFFER;
        if (peer->data[0] == 'Q') return 0;
        if (peer->data[0] == 'D') memcpy(&peer->source, peer->data + 1, 8);
        else if (peer->data[0] == 0x16) (void)!send(fd, bulk, REPLY, 0);
        else if (send(fd, RESPONSE, sizeof RESPONSE - 1, 0) < 0 ||
                 memmem(peer->data, (size_t)length, "onnection: close", 16)) return 0;
        memmove(peer->data, peer->data + length, peer->have - (size_t)length);
    }
    return 1;
}

static int pour(int fd, struct peer *peer) {
    for (int turn = 0; turn < 16 && peer->source > 0; turn++) {
        ssize_t put = send(fd, bulk, peer->source < BULK ? peer->source : BULK, 0);
        if (put < 0) return errno == EAGAIN;
        peer->source -= (uint64_t)put;
    }
    return 1;
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    int used = 2, listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) die("listen");
    fcntl(listener, F_SETFL, O_NONBLOCK);
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    alarm(3600);
    fds[0] = (struct pollfd){.fd = 0, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = listener, .events = POLLIN};
    while (poll(fds, (nfds_t)used, -1) >= 0) {
        if (fds[0].revents && read(0, bulk, 1) <= 0) return 0;
        for (int i = used - 1; i > 1; i--) {
            int alive = !(fds[i].revents & POLLERR);
            if (alive && fds[i].revents & (POLLIN | POLLHUP)) alive = answer(fds[i].fd, peers[i]);
            if (alive && fds[i].events & POLLOUT) alive = pour(fds[i].fd, peers[i]);
            fds[i].events = peers[i]->source ? POLLIN | POLLOUT : POLLIN;
            if (alive) continue;
            close(fds[i].fd);
            free(peers[i]);
            fds[i] = fds[--used];
            peers[i] = peers[used];
        }
        for (int fd; fds[1].revents && used < SLOTS && (fd = accept(listener, NULL, NULL)) >= 0;) {
            tune(fd);
            peers[used] = calloc(1, sizeof **peers);
            fds[used++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    return 1;
}
