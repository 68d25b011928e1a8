/* What the origin and the client share: sizes, loopback addresses, socket settings. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    REPLY = 128,        /* bytes the origin answers to a client's hello */
    BUFFER = 8192,      /* one message at most */
    BULK = 256 * 1024,  /* bytes per send or receive of a bulk body */
    SLOTS = 4096        /* connections at most */
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* Non-blocking, and without Nagle: a stall of the generator must not look like one of the subject. */
static void tune(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}
