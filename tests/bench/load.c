/*
 * The load generator of the benchmark, far faster than what is measured.
 *
 *   load tunnels|requests|stream|idle  ROUTE DIAL_PORT HOST PORT HELLO_FILE CLIENTS SECONDS COUNT
 *
 * ROUTE is direct, connect, socks or plain; DIAL_PORT is the proxy's (or, direct, the origin's); HOST:PORT is what
 * the proxy is asked for. Stops after COUNT rounds (stream: COUNT bytes) or SECONDS, whichever comes first, and prints
 * "done=.. failed=.. redials=.. seconds=.. bytes=.. p50=.. p99=.." (microseconds). `idle` then holds its tunnels until
 * standard input closes. A bulk body is dropped inside the kernel where that is possible.
 */
#include "wire.h"

enum { SAMPLES = 1 << 19, MAX_FAILURES = 64 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* One exchange of a connection: what is sent, and how long a complete reply is (0 = more to come, -1 = a refusal). */
struct step { const void *send; size_t length; long (*reply)(const uint8_t *, size_t); };
struct slot { int step; size_t have; double begun; uint8_t data[BUFFER]; };

static struct pollfd fds[SLOTS];
static struct slot slots[SLOTS];
static char bulk[BULK];
static struct step steps[4];
static int step_count, dial_port, clients, reuse, hold;
static uint64_t done, failed, redials;
static float *samples;

static long reply_hello(const uint8_t *data, size_t have) {
    (void)data;
    return have >= REPLY ? REPLY : 0;
}

static long reply_greeting(const uint8_t *data, size_t have) {
    return have < 2 ? 0 : data[1] == 0 ? 2 : -1;
}

static long reply_socks(const uint8_t *data, size_t have) {
    if (have < 5) return 0;
    size_t need = data[3] == 1 ? 10 : data[3] == 4 ? 22 : 7 + (size_t)data[4];
    return data[1] != 0 ? -1 : have >= need ? (long)need : 0;
}

static long reply_head(const uint8_t *data, size_t have) {
    const uint8_t *end = memmem(data, have, "\r\n\r\n", 4);
    return !end ? 0 : memcmp(data + 8, " 200", 4) ? -1 : end + 4 - data;
}

/* The origin's body is two bytes; a proxy that frames it anew (chunked) would be miscounted, so that is an error. */
static long reply_response(const uint8_t *data, size_t have) {
    long head = reply_head(data, have);
    if (head > 0 && !memmem(data, (size_t)head, "ontent-Length: 2\r", 17) &&
        !memmem(data, (size_t)head, "ontent-length: 2\r", 17)) return -1;
    return head <= 0 ? head : have >= (size_t)head + 2 ? head + 2 : 0;
}

static void plan(const char *route, const char *host, int port, const char *hello_file) {
    static char head[1024];
    static uint8_t hello[BUFFER], socks[300] = {5, 1, 0, 3};
    size_t name = strlen(host);
    if (!strcmp(route, "connect")) {
        const char *form = "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n";
        int length = snprintf(head, sizeof head, form, host, port, host, port);
        steps[step_count++] = (struct step){head, (size_t)length, reply_head};
    } else if (!strcmp(route, "socks")) {
        socks[4] = (uint8_t)name;
        memcpy(socks + 5, host, name);
        socks[5 + name] = (uint8_t)(port >> 8);
        socks[6 + name] = (uint8_t)port;
        steps[step_count++] = (struct step){"\5\1\0", 3, reply_greeting};
        steps[step_count++] = (struct step){socks, 7 + name, reply_socks};
    }
    if (reuse) {
        char target[512] = "";
        if (strcmp(route, "direct")) snprintf(target, sizeof target, "http://%s:%d", host, port);
        const char *form = "GET %s/ HTTP/1.1\r\nHost: %s:%d\r\nAccept: */*\r\n\r\n";
        int length = snprintf(head, sizeof head, form, target, host, port);
        steps[step_count++] = (struct step){head, (size_t)length, reply_response};
        return;
    }
    FILE *file = fopen(hello_file, "rb");
    if (!file) die(hello_file);
    size_t length = fread(hello, 1, sizeof hello - 1, file);
    fclose(file);
    if (!hold) hello[length++] = 'Q'; /* asks the origin to close after its reply: see origin.c */
    steps[step_count++] = (struct step){hello, length, reply_hello};
}

static int ask(int i) {
    slots[i].have = 0;
    return send(fds[i].fd, steps[slots[i].step].send, steps[slots[i].step].length, 0) ==
           (ssize_t)steps[slots[i].step].length;
}

/* connect() to a listening loopback port is done within the call, so it may block; a full backlog is bounded. */
static void begin(int i) {
    struct sockaddr_in address = loopback(dial_port);
    struct timeval limit = {.tv_sec = 5};
    slots[i].step = 0;
    slots[i].begun = now();
    fds[i] = (struct pollfd){.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN};
    setsockopt(fds[i].fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fds[i].fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    tune(fds[i].fd);
    ask(i);
}

static void again(int i) {
    close(fds[i].fd);
    begin(i);
}

/* A round is over when its reply is complete; a tunnel's place is free again once the close has come through too. */
static void finish(int i) {
    double at = now();
    if (done < SAMPLES) samples[done] = (float)((at - slots[i].begun) * 1e6);
    done++;
    if (hold) {
        fds[i].events = 0;
    } else if (reuse && !memmem(slots[i].data, slots[i].have, "onnection: close", 16)) {
        slots[i].begun = at;
        slots[i].step = 0;
        ask(i);
    } else if (reuse) {
        redials++;
        again(i);
    }
}

static void advance(int i) {
    struct slot *slot = &slots[i];
    ssize_t got = recv(fds[i].fd, slot->data + slot->have, BUFFER - slot->have, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        if (reuse && slot->have == 0) redials++; /* closed between two requests: dialled anew, and counted */
        else if (slot->step < step_count) failed++;
        again(i);
        return;
    }
    slot->have += (size_t)got;
    if (slot->step == step_count) return; /* only the close is still to come */
    long length = steps[slot->step].reply(slot->data, slot->have);
    if (length < 0 || (length == 0 && slot->have == BUFFER)) {
        if (failed++ == 0) fprintf(stderr, "refused at step %d: %.*s\n", slot->step, 200, slot->data);
        again(i);
    } else if (length > 0 && ++slot->step < step_count) {
        ask(i);
    } else if (length > 0) {
        finish(i);
    }
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static uint64_t drain(int fd, uint64_t count, double deadline) {
#ifdef __linux__
    int flags = MSG_TRUNC; /* TCP: dropped inside the kernel */
#else
    int flags = 0;
#endif
    uint8_t command[9] = {'D'};
    uint64_t bytes = 0;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    memcpy(command + 1, &count, 8);
    if (send(fd, command, sizeof command, 0) != sizeof command) die("send");
    while (bytes < count && now() < deadline) {
        ssize_t got = recv(fd, bulk, BULK, flags);
        if (got > 0) {
            bytes += (uint64_t)got;
        } else if (got < 0 && errno == EAGAIN) {
            poll(&one, 1, 1000);
        } else {
            fprintf(stderr, "the tunnel ended early: %s\n", got == 0 ? "closed" : strerror(errno));
            break;
        }
    }
    return bytes;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc != 10) return fprintf(stderr, "usage: see the head of load.c\n"), 2;
    int stream = !strcmp(argv[1], "stream");
    reuse = !strcmp(argv[1], "requests");
    hold = stream || !strcmp(argv[1], "idle");
    dial_port = atoi(argv[3]);
    clients = atoi(argv[7]);
    double limit = atof(argv[8]);
    uint64_t count = strtoull(argv[9], NULL, 10), bytes = 0, wanted = stream ? 1 : count;
    if (clients < 1 || clients > SLOTS || (hold && wanted > SLOTS)) return 2;
    samples = malloc(SAMPLES * sizeof *samples);
    plan(argv[2], argv[4], atoi(argv[5]), argv[6]);
    if (hold) clients = 1; /* held connections are opened one after the other */
    for (int i = 0; i < clients; i++) begin(i);
    double start = now(), deadline = start + limit;
    while (done < wanted && failed < MAX_FAILURES && now() < deadline) {
        if (poll(fds, (nfds_t)clients, 100) < 0) die("poll");
        for (int i = 0; i < clients; i++)
            if (fds[i].revents) advance(i);
        if (hold && done == (uint64_t)clients && done < wanted) begin(clients++);
    }
    if (stream && done == 1) {
        start = now();
        bytes = drain(fds[0].fd, count, start + limit);
    }
    double seconds = now() - start;
    size_t kept = done < SAMPLES ? done : SAMPLES;
    qsort(samples, kept, sizeof *samples, ascending);
    printf("done=%llu failed=%llu redials=%llu seconds=%.6f bytes=%llu p50=%.1f p99=%.1f\n",
           (unsigned long long)done, (unsigned long long)failed, (unsigned long long)redials, seconds,
           (unsigned long long)bytes, kept ? samples[kept / 2] : 0.0, kept ? samples[kept * 99 / 100] : 0.0);
    fflush(stdout);
    if (hold && !stream) while (read(0, bulk, BULK) > 0) {} /* they live until the caller has measured */
    return 0;
}
