/* Two sides at once: whatever was looked at may be something else a moment later. */
#include "attack.h"

static char *shared; /* what the call is given, and what somebody changes meanwhile */
static const char *first, *second;
static volatile int over;

static void *flips(void *what)
{
    (void)what;
    size_t size = strlen(first) > strlen(second) ? strlen(first) + 1 : strlen(second) + 1;
    while (!over) {
        memcpy(shared, second, size);
        __asm__ volatile("" ::: "memory");
        memcpy(shared, first, size);
        __asm__ volatile("" ::: "memory");
    }
    return NULL;
}

/* Both are padded: what is copied is as long as the longer one. */
static void race(const char *one, const char *other, void (*call)(long), long count)
{
    pthread_t thread;
    first = strcpy(calloc(1, PATH_MAX), one);
    second = strcpy(calloc(1, PATH_MAX), other);
    shared = strcpy(calloc(1, PATH_MAX), one);
    over = 0;
    pthread_create(&thread, NULL, flips, NULL);
    for (long i = 0; i < count; i++)
        call(i);
    over = 1;
    pthread_join(thread, NULL);
}

static void call_open(long i)
{
    (void)i;
    put(open(shared, NEW, 0644));
    unlink("a1.txt");
}
static void call_write(long i) { (void)i; put(open(shared, O_WRONLY)); }
static void call_cut(long i) { (void)i; put(open(shared, O_RDONLY | O_TRUNC)); }
static void call_truncate(long i) { (void)i; truncate(shared, 0); }
static void call_rename(long i)
{
    (void)i;
    make("from");
    rename("from", shared);
}
static void call_mkdir(long i) { (void)i; mkdir(shared, 0755); rmdir("a1.txt"); }
static void call_symlink(long i) { (void)i; symlink("x", shared); unlink("a1.txt"); }
static void call_link(long i) { (void)i; link("ok.txt", shared); unlink("a1.txt"); }
static void call_link_away(long i) { (void)i; link(shared, "innocent"); unlink("innocent"); }
static void call_mknod(long i) { (void)i; mknod(shared, S_IFIFO | 0644, 0); unlink("a1.txt"); }

static void flips_names(void)
{
    race("a1.txt", "a1.key", call_open, rounds);
    race("a1.txt", "a1.key", call_rename, rounds / 2);
    race("a1.txt", "a1.key", call_mkdir, rounds / 2);
    race("a1.txt", "a1.key", call_symlink, rounds / 2);
    race("a1.txt", "a1.key", call_link, rounds / 2);
    race("a1.txt", "a1.key", call_mknod, rounds / 2);
    race("ok.txt", ".env\0\0", call_link_away, rounds / 2);
    race("ok.txt", ".env\0\0", call_write, rounds / 2);
}

static void flips_private(void) /* between what is let through to the kernel, and what may not be */
{
    char *inside = text("%s/file", scratch), *device = "/dev/null";
    race(inside, in_tree("a1.key"), call_open, rounds);
    race(inside, in_tree("a2.key"), call_mkdir, rounds / 2);
    unlink(inside), rmdir(inside);
    race(inside, in_tree("a3.key"), call_symlink, rounds / 4);
    unlink(inside);
    race(device, in_tree(".env"), call_write, rounds);
    make(inside);
    race(inside, in_tree(".env"), call_cut, rounds / 2);
    race(inside, in_tree(".env"), call_truncate, rounds / 2);
    race(inside, in_tree("a4.key"), call_rename, rounds / 4);
    race("/proc/self/cwd/a.txt", "/proc/self/cwd/a.key", call_open, rounds / 4);
    race("/proc/self/comm", in_tree(".env"), call_write, rounds / 2);
    unlink(inside);
}

static void *turns_link(void *what)
{
    char *name = what, *next = text("%s.next", name);
    while (!over) {
        symlink(first, next), rename(next, name);
        symlink(second, next), rename(next, name);
    }
    unlink(next);
    return NULL;
}

static void with_link(const char *name, const char *one, const char *other, void (*call)(long), long count)
{
    pthread_t thread;
    first = one, second = other, over = 0;
    shared = strdup(name);
    symlink(one, name);
    pthread_create(&thread, NULL, turns_link, strdup(name));
    for (long i = 0; i < count; i++)
        call(i);
    over = 1;
    pthread_join(thread, NULL);
    unlink(name);
}

static void turns_links(void)
{
    with_link("pointer", "a1.txt", "a1.key", call_open, rounds / 10);
    with_link("pointer", "ok.txt", ".env", call_write, rounds / 10);
    with_link("pointer", "ok.txt", ".git/config", call_cut, rounds / 10);
    with_link(text("%s/pointer", scratch), text("%s/a1.txt", scratch), in_tree("a2.key"), call_open, rounds / 10);
    with_link(text("%s/pointer", scratch), "/dev/null", in_tree(".env"), call_write, rounds / 10);
}

static void call_hook(long i) { (void)i; put(open("folder/pre-commit", NEW, 0644)); unlink("empty/pre-commit"); }
static void call_move(long i)
{
    (void)i;
    make("from");
    rename("from", "folder/pre-commit");
    unlink("empty/pre-commit");
}

static void turns_directories(void)
{
    with_link("folder", "empty", ".git/hooks", call_hook, rounds / 10);
    with_link("folder", "empty", ".git/hooks", call_move, rounds / 10);
}

static void *moves_about(void *what)
{
    int hooks = open(".git/hooks", O_RDONLY), empty = open("empty", O_RDONLY);
    (void)what;
    while (!over)
        if (fchdir(hooks) || fchdir(empty))
            return NULL;
    return NULL;
}

static void changes_directory(void)
{
    pthread_t thread;
    over = 0;
    pthread_create(&thread, NULL, moves_about, NULL);
    for (long i = 0; i < rounds / 4; i++) {
        put(open("pre-commit", NEW, 0644));
        rename(in_tree("ok.txt"), "pre-commit");
        link("pre-commit.sample", "pre-commit");
        unlink(in_tree("empty/pre-commit"));
    }
    over = 1;
    pthread_join(thread, NULL);
}

static int slot;
static int one, other;

static void *turns_descriptor(void *what)
{
    (void)what;
    while (!over) {
        dup2(other, slot);
        dup2(one, slot);
    }
    return NULL;
}

static void with_descriptor(int good, int bad, void (*call)(long), long count)
{
    pthread_t thread;
    one = good, other = bad, slot = 200, over = 0;
    dup2(good, slot);
    pthread_create(&thread, NULL, turns_descriptor, NULL);
    for (long i = 0; i < count; i++)
        call(i);
    over = 1;
    pthread_join(thread, NULL);
}

static void call_below(long i) { (void)i; put(openat(slot, "pre-commit", NEW, 0644)); }
static void call_reopen(long i) { (void)i; put(open("/proc/self/fd/200", O_WRONLY)); }
static void call_publish(long i)
{
    (void)i;
    linkat(slot, "", AT_FDCWD, "innocent", AT_EMPTY_PATH);
    unlink("innocent");
}

static void turns_descriptors(void)
{
    int empty = open("empty", O_RDONLY), hooks = open(".git/hooks", O_RDONLY), fine = open("ok.txt", O_RDWR);
    with_descriptor(empty, hooks, call_below, rounds / 2);
    with_descriptor(fine, open(".env", O_RDONLY), call_reopen, rounds / 2);
    with_descriptor(open("/dev/null", O_RDWR), open(".env", O_RDONLY), call_reopen, rounds / 2);
    with_descriptor(open(text("%s/kept", scratch), NEW, 0644), open(".env", O_RDONLY), call_reopen, rounds / 2);
    with_descriptor(fine, open(".env", O_RDONLY), call_publish, rounds / 4);
    unlink(text("%s/kept", scratch));
}

static struct sockaddr_un good, bad, now;
static int other_socket;

static void *flips_address(void *what)
{
    (void)what;
    while (!over) {
        memcpy(&now, &bad, sizeof now);
        __asm__ volatile("" ::: "memory");
        memcpy(&now, &good, sizeof now);
        __asm__ volatile("" ::: "memory");
    }
    return NULL;
}

static void connects(int descriptor)
{
    struct sockaddr_un peer = {0};
    socklen_t size = sizeof peer;
    if (!connect(descriptor, (void *)&now, sizeof now) && !getpeername(descriptor, (void *)&peer, &size) &&
        strstr(peer.sun_path, "host.sock"))
        breach("connected to %s", peer.sun_path);
    close(descriptor);
}

static void addresses(void) /* a private socket's address becomes that of one outside */
{
    pthread_t thread;
    good.sun_family = bad.sun_family = AF_UNIX;
    snprintf(good.sun_path, sizeof good.sun_path, "%s/socket", scratch);
    snprintf(bad.sun_path, sizeof bad.sun_path, "host.sock");
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (void *)&good, sizeof good) || listen(listener, 100))
        return;
    now = good;
    over = 0;
    pthread_create(&thread, NULL, flips_address, NULL);
    for (long i = 0; i < rounds / 4; i++) {
        connects(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
        close(accept(listener, NULL, NULL));
    }
    over = 1;
    pthread_join(thread, NULL);
    /* an internet socket becomes a Unix one while its address is looked at */
    now = bad;
    other_socket = socket(AF_UNIX, SOCK_STREAM, 0);
    one = socket(AF_INET, SOCK_STREAM, 0), other = other_socket, slot = 201, over = 0;
    dup2(one, slot);
    pthread_create(&thread, NULL, turns_descriptor, NULL);
    for (long i = 0; i < rounds / 4; i++)
        connects(dup(slot));
    over = 1;
    pthread_join(thread, NULL);
    unlink(good.sun_path);
}

/* --- Storms: nothing may get through, and nothing that is allowed may fail ------------------------------------ */

static void storms_of_forks(void)
{
    for (int i = 0; i < 100; i++)
        if (!fork()) {
            for (int turn = 0; turn < 3; turn++) {
                put(open(text("a%d-%d.key", i, turn), NEW, 0644));
                put(open(".env", O_WRONLY));
                int fine = open(text("empty/%d-%d", i, turn), O_CREAT | O_EXCL | O_WRONLY, 0644);
                if (fine < 0)
                    breach("an allowed file could not be made: %s", strerror(errno));
                close(fine);
            }
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

static void on_alarm(int number) { (void)number; }

static void count_false(const char *kind)
{
    long exists = 0, failed = 0, missing = 0;
    for (long i = 0; i < rounds / 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "empty/%s%ld", kind, i);
        int descriptor = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (descriptor < 0)
            errno == EEXIST ? exists++ : failed++;
        else if (close(descriptor) || access(name, F_OK))
            missing++;
        snprintf(name, sizeof name, "empty/%s-folder%ld", kind, i);
        if (mkdir(name, 0755))
            errno == EEXIST ? exists++ : failed++;
    }
    if (exists || failed || missing)
        breach("%s: %ld files existed that nobody made, %ld failed, %ld are missing", kind, exists, failed, missing);
}

static void storms_of_signals(void) /* whose handler lets calls begin again */
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    count_false("timer");
    setitimer(ITIMER_REAL, &never, NULL);
    pid_t sender = fork();
    while (!sender)
        if (kill(getppid(), SIGALRM))
            _exit(0);
    count_false("sender");
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
}

/* A program that was just written must be executable at once (ETXTBSY: somebody still holds it open for writing). */
static void writes_and_executes(void)
{
    char *program = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int source = open(self, O_RDONLY);
    ssize_t size = read(source, program, 1 << 20);
    long busy = 0, failed = 0;
    for (long i = 0; i < 2 * rounds / 3; i++) {
        int file = open("empty/program", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755);
        if (file < 0 || write(file, program, size) != size)
            failed++;
        close(file);
        volatile int problem = 0;
        pid_t child = vfork();
        if (!child) {
            execl("empty/program", "program", NULL);
            problem = errno;
            _exit(1);
        }
        waitpid(child, NULL, 0);
        if (problem)
            problem == ETXTBSY ? busy++ : failed++;
        unlink("empty/program");
    }
    if (busy || failed)
        breach("%ld programs were busy, %ld failed", busy, failed);
}

const struct route race_routes[] = {
    {"flips-names", flips_names}, {"flips-private", flips_private}, {"turns-links", turns_links},
    {"turns-directories", turns_directories}, {"changes-directory", changes_directory},
    {"turns-descriptors", turns_descriptors}, {"addresses", addresses}, {"storms-of-forks", storms_of_forks},
    {"storms-of-signals", storms_of_signals}, {"writes-and-executes", writes_and_executes}, {NULL, NULL},
};
