/* Other ways into the kernel: other conventions, newer calls, privileges, sockets, and being traced. */
#include "attack.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/user.h>

static void had(const char *what, long result)
{
    if (result >= 0)
        breach("%s was done", what);
}

static void newer_calls(void)
{
    struct {
        uint64_t flags, mode, resolve;
    } how = {NEW, 0644, 0};
    put(syscall(437, AT_FDCWD, "a1.key", &how, sizeof how)); /* openat2 */
    char parameters[256] = {0};
    had("io_uring_setup", syscall(425, 4, parameters));
    uint64_t arguments[11] = {CLONE_NEWUSER, [4] = SIGCHLD};
    long child = syscall(435, arguments, sizeof arguments); /* clone3 */
    if (!child)
        _exit(0);
    had("clone3 with a new user namespace", child);
    had("open_tree", syscall(428, AT_FDCWD, tree, 1)); /* OPEN_TREE_CLONE */
    had("fsopen", syscall(430, "tmpfs", 0));
    had("a call from the future", syscall(1000) < 0 && errno == ENOSYS ? -1 : 0);
}

static void other_conventions(void)
{
#ifdef __x86_64__
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(low, "a1.key");
    strcpy(low + 64, ".env");
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(5), "b"(low), "c"(NEW), "d"(0644) : "memory", "r8", "r9", "r10", "r11");
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(39), "b"(low), "c"(0755) : "memory", "r8", "r9", "r10", "r11");
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(92), "b"(low + 64), "c"(0) : "memory", "r8", "r9", "r10", "r11");
    put(syscall(0x40000000 | SYS_open, "a2.key", NEW, 0644));
    syscall(0x40000000 | SYS_mkdir, "a3.key", 0755);
    syscall(0x40000000 | SYS_truncate, ".env", 0);
    put(syscall(SYS_open | (1L << 32), "a4.key", NEW, 0644));
    put(syscall(SYS_open | (1L << 63), "a5.key", NEW, 0644));
#endif
}

static void privileges(void)
{
    had("chroot", chroot("sub"));
    had("mount", mount("x", "sub", "tmpfs", 0, NULL));
    had("a bind mount", mount("ok.txt", ".env", NULL, MS_BIND, NULL));
    had("umount", umount2("/proc", MNT_DETACH));
    had("unshare user", unshare(CLONE_NEWUSER));
    had("unshare mounts", unshare(CLONE_NEWNS));
    had("unshare both", unshare(CLONE_NEWUSER | CLONE_NEWNS));
    had("setns", setns(open("/proc/1/ns/mnt", O_RDONLY), 0));
    had("pivot_root", syscall(SYS_pivot_root, "sub", "sub"));
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (!child)
        _exit(0);
    had("clone with a new user namespace", child);
    struct {
        struct file_handle head;
        char space[128];
    } handle = {.head = {.handle_bytes = 128}};
    int mount_id, folder = open(".", O_RDONLY);
    if (!name_to_handle_at(AT_FDCWD, ".env", &handle.head, &mount_id, 0))
        put(open_by_handle_at(folder, &handle.head, O_WRONLY));
    had("a lease", fcntl(open("ok.txt", O_RDONLY), F_SETLEASE, F_RDLCK)); /* the supervisor would wait for its end */
    had("TIOCSTI", ioctl(0, TIOCSTI, "x"));
    had("bpf", syscall(SYS_bpf, 0, NULL, 0) < 0 && (errno == EPERM || errno == ENOSYS) ? -1 : 0);
    had("keyctl", syscall(SYS_keyctl, 0, -4, 0));
}

static void own_filters(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_filter ask[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1000, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog allows = {1, all}, asks = {4, ask};
    had("a listener of one's own", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 8, &asks));
    if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &allows))
        put(open("a1.key", NEW, 0644));
    DIR *processes = opendir("/proc");
    for (struct dirent *process; processes && (process = readdir(processes));) {
        DIR *descriptors = opendir(text("/proc/%s/fd", process->d_name));
        for (struct dirent *entry; descriptors && (entry = readdir(descriptors));) {
            char target[64] = "";
            if (readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1) > 0 && strstr(target, "seccomp"))
                breach("the listener is in process %s", process->d_name);
        }
        if (descriptors)
            closedir(descriptors);
    }
    for (int number = 3; number < 64; number++) {
        char target[64] = "";
        if (readlink(text("/proc/self/fd/%d", number), target, sizeof target - 1) > 0 && strstr(target, "socket"))
            breach("a socket was left open: %s", target);
    }
}

static void traced(void) /* a tracer changes which call is made, after it was entered */
{
#ifdef __x86_64__
    pid_t child = fork();
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        syscall(SYS_getppid);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    for (int stops = 0; stops < 50 && WIFSTOPPED(status); stops++) {
        struct user_regs_struct registers;
        ptrace(PTRACE_GETREGS, child, NULL, &registers);
        if (registers.orig_rax == SYS_getppid && registers.rax == (unsigned long)-ENOSYS) {
            char name[8] = "a1.key";
            unsigned long word, place = registers.rsp - 512;
            memcpy(&word, name, 8);
            ptrace(PTRACE_POKEDATA, child, place, word);
            registers.orig_rax = SYS_open;
            registers.rdi = place;
            registers.rsi = NEW;
            registers.rdx = 0644;
            ptrace(PTRACE_SETREGS, child, NULL, &registers);
        }
        ptrace(PTRACE_SYSCALL, child, NULL, NULL);
        waitpid(child, &status, 0);
    }
#endif
}

static void odd_processes(void) /* a child on borrowed memory, one that cannot be looked into, one without room */
{
    if (!vfork()) {
        int descriptor = open("a1.key", NEW, 0644);
        (void)descriptor;
        _exit(0);
    }
    prctl(PR_SET_DUMPABLE, 0);
    put(open("a2.key", NEW, 0644));
    put(open(".env", O_WRONLY));
    rename("ok.txt", "a3.key");
    prctl(PR_SET_DUMPABLE, 1);
    struct rlimit none = {3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
    put(open("a4.key", NEW, 0644));
    put(open(".env", O_WRONLY | O_TRUNC));
}

static void *elsewhere(void *what)
{
    (void)what;
    if (unshare(CLONE_FS) || chdir(".git/hooks"))
        return NULL;
    make("pre-commit");
    link("pre-commit.sample", "pre-commit");
    put(open("../config", O_WRONLY));
    umask(0);
    return NULL;
}

static void own_directories(void) /* a thread with a working directory of its own */
{
    pthread_t thread;
    pthread_create(&thread, NULL, elsewhere, NULL);
    pthread_join(thread, NULL);
    make("fine");
    struct stat found;
    if (stat("fine", &found) || found.st_mode & 022)
        breach("a thread's own directory or mask became the process's");
}

static void dumps_core(void)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &all);
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_NAME, "x.key");
        prctl(PR_SET_DUMPABLE, 1);
        raise(SIGSEGV);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

/* host.sock and host.dgram in the tree belong to a process outside. */
static void reach(int descriptor, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    if (descriptor >= 0 && !connect(descriptor, (void *)&name, sizeof name))
        breach("connected to %s", path);
    close(descriptor);
}

static void unix_sockets(void)
{
    reach(socket(AF_UNIX, SOCK_STREAM, 0), "host.sock");
    reach(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "./sub/../host.sock");
    reach(socket(AF_UNIX, SOCK_STREAM, 0), "/proc/self/cwd/host.sock");
    symlink("host.sock", "innocent");
    reach(socket(AF_UNIX, SOCK_STREAM, 0), "innocent");
    symlink(in_tree("host.sock"), text("%s/innocent", scratch));
    reach(socket(AF_UNIX, SOCK_STREAM, 0), text("%s/innocent", scratch));
    unlink(text("%s/innocent", scratch));
    int pinned = open("host.sock", O_PATH);
    reach(socket(AF_UNIX, SOCK_STREAM, 0), text("/proc/self/fd/%d", pinned));
    reach(dup(socket(AF_UNIX, SOCK_STREAM, 0)), "host.sock");
    reach(socket(AF_UNIX, SOCK_DGRAM, 0), "host.dgram");
    reach(socket(AF_UNIX, SOCK_RAW, 0), "host.dgram");
    int pair[2], kinds[] = {SOCK_DGRAM, SOCK_RAW};
    struct sockaddr_un name = {AF_UNIX, "host.dgram"};
    for (int i = 0; i < 2; i++) {
        char got[4]; /* what the other end of the pair has got did not go anywhere else */
        struct iovec text = {"evil", 4};
        struct msghdr named = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &text, .msg_iovlen = 1};
        if (!socketpair(AF_UNIX, kinds[i], 0, pair)) {
            if (sendto(pair[0], "evil", 4, 0, (void *)&name, sizeof name) > 0 && recv(pair[1], got, 4, MSG_DONTWAIT) < 0)
                breach("sent to %s", name.sun_path);
            if (sendmsg(pair[1], &named, 0) > 0 && recv(pair[0], got, 4, MSG_DONTWAIT) < 0)
                breach("sent to %s", name.sun_path);
            if (!connect(pair[0], (void *)&name, sizeof name))
                breach("connected a pair to %s", name.sun_path);
        }
        int alone = socket(AF_UNIX, kinds[i], 0);
        if (alone >= 0 && sendto(alone, "evil", 4, 0, (void *)&name, sizeof name) > 0)
            breach("sent to %s", name.sun_path);
        struct iovec vector = {"evil", 4};
        struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &vector, .msg_iovlen = 1};
        if (alone >= 0 && sendmsg(alone, &message, 0) > 0)
            breach("sent to %s", name.sun_path);
    }
}

const struct route kernel_routes[] = {
    {"newer-calls", newer_calls}, {"other-conventions", other_conventions}, {"privileges", privileges},
    {"own-filters", own_filters}, {"traced", traced}, {"odd-processes", odd_processes},
    {"own-directories", own_directories}, {"dumps-core", dumps_core}, {"unix-sockets", unix_sockets}, {NULL, NULL},
};
