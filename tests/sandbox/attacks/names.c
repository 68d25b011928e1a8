/* Every way to give a file a name, and every way to spell one. */
#include "attack.h"

static void creates(void)
{
    put(open("a1.key", NEW, 0644));
    put(open("a2.key", O_CREAT | O_EXCL | O_RDWR, 0600));
    put(creat("a3.key", 0644));
    put(open("a4.key", O_CREAT | O_RDONLY, 0644));
    put(open("a5.key", NEW | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    put(open("a6.key", O_CREAT | 3, 0644));
    put(syscall(SYS_openat, AT_FDCWD, "a7.key", NEW | (1L << 32), 0644));
    put(syscall(SYS_openat, AT_FDCWD | (0x7fL << 32), "a8.key", NEW, 0644));
    put(open("a9.key", NEW | O_DIRECTORY, 0644));
    put(open("b1.key", NEW | O_PATH, 0644));
#ifdef SYS_open
    put(syscall(SYS_open, "b2.key", NEW, 0644));
    put(syscall(SYS_creat, "b3.key", 0644));
#endif
    put(open(".env.local", NEW, 0644));
    put(open("sub/.env.production", NEW, 0644));
    put(open("sub/deep/server.pem", NEW, 0644));
}

static void writes(void)
{
    put(open(".env", O_WRONLY));
    put(open(".env", O_RDWR | O_APPEND));
    put(open("sub/.env", O_WRONLY | O_TRUNC));
    put(open("old.pem", O_RDONLY | O_TRUNC));
    put(open(".env", O_CREAT | O_RDWR, 0644));
}

static void truncates(void)
{
    if (truncate(".env", 0) && truncate("sub/.env", 1) && truncate(in_tree("old.pem"), 100))
        return;
}

static void makes_directories(void)
{
    mkdir("a1.key", 0755);
    mkdirat(AT_FDCWD, "a2.key/", 0755);
    mkdir("a3.key/.", 0755);
    mkdir("./sub/../a4.key//", 0755);
    mkdir(".env.d", 0755);
}

static void makes_nodes(void)
{
    mknod("a1.key", S_IFREG | 0644, 0);
    mknod("a2.key", S_IFIFO | 0644, 0);
    mknod("a3.key", S_IFSOCK | 0644, 0);
    mknod("a4.key", 0644, 0);
    mkfifoat(AT_FDCWD, "a5.key", 0644);
    mknod("a6.key", S_IFCHR | 0666, 0); /* a whiteout, which needs no privilege */
    mknod("a7.key", S_IFCHR | 0666, 0x103);
}

static void makes_links(void)
{
    link("ok.txt", "a1.key");
    linkat(AT_FDCWD, "ok.txt", AT_FDCWD, "a2.key", 0);
    linkat(AT_FDCWD, "ok.txt", AT_FDCWD, "a3.key", AT_SYMLINK_FOLLOW);
    symlink("ok.txt", "innocent");
    linkat(AT_FDCWD, "innocent", AT_FDCWD, "a4.key", AT_SYMLINK_FOLLOW);
    link("innocent", "a5.key");
}

static void links_away(void) /* a second, innocent name of a protected file */
{
    link(".env", "innocent1");
    linkat(AT_FDCWD, "sub/.env", AT_FDCWD, "innocent2", AT_SYMLINK_FOLLOW);
    symlink(".env", "pointer");
    linkat(AT_FDCWD, "pointer", AT_FDCWD, "innocent3", AT_SYMLINK_FOLLOW);
    int descriptor = open("old.pem", O_PATH);
    linkat(descriptor, "", AT_FDCWD, "innocent4", AT_EMPTY_PATH);
    linkat(AT_FDCWD, text("/proc/self/fd/%d", descriptor), AT_FDCWD, "innocent5", AT_SYMLINK_FOLLOW);
    for (int i = 1; i < 6; i++)
        put(open(text("innocent%d", i), O_WRONLY));
}

static void makes_symbolic_links(void)
{
    symlink("ok.txt", "a1.key");
    symlinkat("ok.txt", AT_FDCWD, "sub/a2.key");
    symlink("/etc/passwd", ".env.x");
}

static void writes_through_links(void)
{
    symlink("a1.key", "innocent1");
    put(open("innocent1", NEW, 0644));
    symlink(".env", "innocent2");
    put(open("innocent2", O_WRONLY));
    put(open("innocent2", O_RDWR | O_TRUNC));
    truncate("innocent2", 0);
    symlink("innocent1", "innocent3");
    put(open("innocent3", NEW, 0644));
    symlink("sub", "folder");
    put(open("folder/a2.key", NEW, 0644));
    put(open("folder/.env", O_WRONLY));
    symlink(in_tree("a3.key"), "innocent4");
    put(open("innocent4", NEW, 0644));
    symlink("..//sub/./deep/../../a4.key", "sub/innocent5");
    put(open("sub/innocent5", NEW, 0644));
    symlink("a5.key/", "innocent6");
    put(open("innocent6", NEW, 0644));
    mkdir("innocent6", 0755);
    symlink("a6.key", "innocent7");
    rename("ok.txt", "innocent7/");
    mkdir("innocent7/", 0755);
}

static void renames(void)
{
    make("b1"), make("b2"), make("b3"), make("b4"), make("b5");
    rename("b1", "a1.key");
    renameat(AT_FDCWD, "b2", AT_FDCWD, "a2.key");
    syscall(SYS_renameat2, AT_FDCWD, "b3", AT_FDCWD, "a3.key", RENAME_NOREPLACE_);
    rename("b4", ".env");
    rename("b5", "sub/.env");
    mkdir("c1", 0755), mkdir("c2", 0755);
    rename("c1", "a4.key");
    rename("c2/", "a5.key/");
}

static void exchanges(void)
{
    make("b1"), make("b2");
    syscall(SYS_renameat2, AT_FDCWD, "b1", AT_FDCWD, ".env", RENAME_EXCHANGE_);
    syscall(SYS_renameat2, AT_FDCWD, "sub/.env", AT_FDCWD, "b2", RENAME_EXCHANGE_);
    put(open("b1", O_WRONLY | O_TRUNC));
    put(open("b2", O_WRONLY | O_TRUNC));
}

static void whiteouts(void)
{
    make("b1"), make("b2");
    syscall(SYS_renameat2, AT_FDCWD, "b1", AT_FDCWD, "a1.key", RENAME_WHITEOUT_);
    syscall(SYS_renameat2, AT_FDCWD, ".env", AT_FDCWD, "b3", RENAME_WHITEOUT_);
    syscall(SYS_renameat2, AT_FDCWD, "b2", AT_FDCWD, "old.pem", RENAME_WHITEOUT_);
}

static void renames_away(void) /* writes where it may, then renames back */
{
    if (!rename(".env", "innocent")) {
        put(open("innocent", O_WRONLY | O_TRUNC));
        rename("innocent", ".env");
    }
    if (!rename("sub/.env", in_tree("sub/innocent")))
        put(open("sub/innocent", O_WRONLY | O_TRUNC));
}

static void replaces_directories(void)
{
    /* what is below a directory gets a denied path when the directory is renamed */
    mkdir("c", 0755);
    make("c/settings.json");
    rename("c", ".claude");
    mkdir("sub/d", 0755);
    make("sub/d/settings.json");
    rename(in_tree("sub/d"), in_tree("sub/.claude"));
    mkdir("e", 0755);
    mkdir("e/.claude", 0755);
    make("e/.claude/settings.json");
    make("f");
    mkdir(".claude", 0755);
    rename("f", ".claude/settings.json");
    link("ok.txt", ".claude/settings.json");
    symlink("ok.txt", ".claude/settings.json");
    mkdir("g", 0755);
    make("g/settings.json");
    syscall(SYS_renameat2, AT_FDCWD, "g", AT_FDCWD, ".claude", RENAME_EXCHANGE_);
}

static void links_directories(void) /* a link in place of a directory of a denied path */
{
    mkdir("c", 0755);
    make("c/settings.json");
    symlink("c", ".claude");
}

static int nameless(void) { return open(".", O_TMPFILE | O_RDWR, 0644); }

static void publishes(void)
{
    int descriptor = nameless();
    if (descriptor < 0)
        return;
    if (write(descriptor, "evil", 4) != 4)
        return;
    linkat(descriptor, "", AT_FDCWD, "a1.key", AT_EMPTY_PATH);
    linkat(AT_FDCWD, text("/proc/self/fd/%d", descriptor), AT_FDCWD, "a2.key", AT_SYMLINK_FOLLOW);
    linkat(AT_FDCWD, text("/dev/fd/%d", descriptor), AT_FDCWD, "a3.key", AT_SYMLINK_FOLLOW);
    linkat(open("/proc/self/fd", O_RDONLY), text("%d", descriptor), AT_FDCWD, "a4.key", AT_SYMLINK_FOLLOW);
    linkat(AT_FDCWD, text("/proc/%d/fd/%d", getpid(), descriptor), AT_FDCWD, "sub/a5.key", AT_SYMLINK_FOLLOW);
    if (!linkat(AT_FDCWD, text("/proc/self/fd/%d", descriptor), AT_FDCWD, "ok2.txt", AT_SYMLINK_FOLLOW))
        rename("ok2.txt", "a6.key");
    put(open("sub/a7.key", O_TMPFILE | O_RDWR, 0644));
    put(open(".git/hooks", O_TMPFILE | O_RDWR, 0644));
}

static void sends_descriptor(void *what)
{
    int *pair = what, descriptor;
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    if (chdir("/") || recvmsg(pair[1], &message, 0) != 1)
        return;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    linkat(descriptor, "", AT_FDCWD, in_tree("a1.key"), AT_EMPTY_PATH);
    linkat(AT_FDCWD, text("/proc/self/fd/%d", descriptor), AT_FDCWD, in_tree("a2.key"), AT_SYMLINK_FOLLOW);
    put(openat(descriptor, "a3.key", NEW, 0644));
    put(open(text("/proc/self/fd/%d", descriptor), O_WRONLY | O_TRUNC));
}

static void passes_descriptors(void)
{
    int what[] = {nameless(), open(".", O_RDONLY | O_DIRECTORY), open(".env", O_RDONLY), open("sub", O_PATH)};
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        int pair[2];
        union {
            struct cmsghdr head;
            char space[CMSG_SPACE(sizeof(int))];
        } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
        struct iovec vector = {"x", 1};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control,
                                 .msg_controllen = sizeof control};
        if (what[i] < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
            continue;
        memcpy(CMSG_DATA(&control.head), &what[i], sizeof(int));
        if (sendmsg(pair[0], &message, 0) == 1)
            apart(sends_descriptor, pair);
    }
}

static void odd_directories(void)
{
    int folder = open(".", O_RDONLY), path = open(".", O_PATH), file = open("ok.txt", O_RDONLY);
    put(openat(folder, "a1.key", NEW, 0644));
    put(openat(path, "a2.key", NEW, 0644));
    put(openat(-1, in_tree("a3.key"), NEW, 0644));
    put(openat(file, in_tree("a4.key"), NEW, 0644));
    put(openat(file, "a5.key", NEW, 0644));
    put(openat(12345, "a6.key", NEW, 0644));
    put(openat(path, "sub/../a7.key", NEW, 0644));
    put(syscall(SYS_openat, path | (1L << 40), "a8.key", NEW, 0644));
    mkdirat(path, "a9.key", 0755);
    symlinkat("x", folder, "b1.key");
    mknodat(path, "b2.key", S_IFREG | 0644, 0);
    renameat(path, "ok.txt", folder, "b3.key");
    linkat(folder, "ok.txt", path, "b4.key", 0);
    int outside = open("/", O_PATH);
    put(openat(outside, in_tree("b5.key") + 1, NEW, 0644));
    put(openat(outside, in_tree(".env") + 1, O_WRONLY));
}

static void spellings(void)
{
    put(open("./a1.key", NEW, 0644));
    put(open(".//sub/..//./a2.key", NEW, 0644));
    put(open(text("%s//a3.key", tree), NEW, 0644));
    put(open(text("//%s/a4.key", tree), NEW, 0644));
    put(open(text("/..%s/sub/deep/../../a5.key", tree), NEW, 0644));
    put(open("a6.key/", NEW, 0644));
    put(open("a7.key/.", NEW, 0644));
    mkdir("a8.key/////", 0755);
    rename("ok.txt", "./a9.key");
    char *last = strrchr(tree, '/');
    put(open(text("../%s/b1.key", last + 1), NEW, 0644));
    put(open(text("%s/../%s/.env", tree, last + 1), O_WRONLY));
}

static void letters(void)
{
    static const char *const names[] = {
        ".ENV", ".Env", "x.KEY", "x.pEm", ".ENV.LOCAL", "\xff.key", "a\n.pem", " .key", ".key", "\xf0\x9f\x94\x91.key",
        ".e\xe2\x80\x8bnv", "x.\xe2\x84\xaa" "ey", "\xef\xbc\x8e" "env", ".env\xe2\x80\x8b", "k.k\xc2\xad" "ey",
        ".\xef\xbd\x85\xef\xbd\x8e\xef\xbd\x96", ".env.\xff", "\x01.pem", "*.key", "[.key", "\\.key",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(open(names[i], NEW, 0644));
}

static void long_paths(void)
{
    char path[PATH_MAX + 64];
    for (size_t length = PATH_MAX - 20; length < PATH_MAX + 20; length++) {
        memset(path, '/', length);
        for (size_t at = 0; at + 1 < length; at += 2)
            path[at] = '.';
        strcpy(path + length - 6, "/a.key");
        put(open(path, NEW, 0644));
    }
    memset(path, 'n', 255);
    strcpy(path + 251, ".key");
    put(open(path, NEW, 0644));
    memset(path, 'm', 300);
    strcpy(path + 296, ".key");
    put(open(path, NEW, 0644));
}

static void page_ends(void) /* the path ends with its page, or goes over the end of one */
{
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 2 * 4096, 4096);
    for (int back = 7; back < 14; back++) {
        strcpy(pages + 2 * 4096 - 7, "a1.key");
        char *path = pages + 2 * 4096 - back;
        memset(path, '/', back - 7);
        if (back > 7)
            path[0] = '.';
        put(open(path, NEW, 0644));
        path = pages + 4096 - back + 3;
        memcpy(path, "./a2.key", 9);
        put(open(path, NEW, 0644));
    }
    memset(pages + 4096, 'n', 4096); /* no end at all */
    put(open(pages + 4096, NEW, 0644));
    put(syscall(SYS_openat, AT_FDCWD, NULL, NEW, 0644));
    put(syscall(SYS_openat, AT_FDCWD, ~0L, NEW, 0644));
}

static void through_private(void) /* paths that begin in a private mount and end elsewhere */
{
    char *pointer = text("%s/pointer", scratch), *folder = text("%s/folder", scratch), *file = text("%s/file", scratch);
    symlink(in_tree("a1.key"), pointer);
    put(open(pointer, NEW, 0644));
    symlink(tree, folder);
    put(open(text("%s/a2.key", folder), NEW, 0644));
    put(open(text("%s/.env", folder), O_WRONLY));
    put(open(text("%s/.env", folder), O_RDONLY | O_TRUNC));
    truncate(text("%s/.env", folder), 0);
    mkdir(text("%s/a3.key", folder), 0755);
    make(file);
    rename(file, in_tree("a4.key"));
    link(file, in_tree("a5.key"));
    symlink("x", text("%s/a6.key", folder));
    mknod(text("%s/a7.key", folder), S_IFREG | 0644, 0);
    rename(text("%s/ok.txt", folder), text("%s/a8.key", folder));
    link(text("%s/ok.txt", folder), text("%s/a9.key", folder));
    put(open(text("%s/../..%s/b1.key", scratch, tree), NEW, 0644));
    put(open(text("/dev/..%s/b2.key", tree), NEW, 0644));
    put(open(text("/dev/shm/../..%s/b3.key", tree), NEW, 0644));
    unlink(pointer), unlink(folder), unlink(file);
}

static void binds_socket(void)
{
    struct sockaddr_un name = {AF_UNIX, "a1.key"};
    if (!bind(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&name, sizeof name))
        return;
    strcpy(name.sun_path, ".env.sock");
    bind(socket(AF_UNIX, SOCK_SEQPACKET, 0), (void *)&name, sizeof name);
}

const struct route name_routes[] = {
    {"creates", creates}, {"writes", writes}, {"truncates", truncates}, {"makes-directories", makes_directories},
    {"makes-nodes", makes_nodes}, {"makes-links", makes_links}, {"links-away", links_away},
    {"makes-symbolic-links", makes_symbolic_links}, {"writes-through-links", writes_through_links},
    {"renames", renames}, {"exchanges", exchanges}, {"whiteouts", whiteouts}, {"renames-away", renames_away},
    {"replaces-directories", replaces_directories}, {"links-directories", links_directories},
    {"publishes", publishes}, {"passes-descriptors", passes_descriptors},
    {"odd-directories", odd_directories}, {"spellings", spellings}, {"letters", letters},
    {"long-paths", long_paths}, {"page-ends", page_ends}, {"through-private", through_private},
    {"binds-socket", binds_socket}, {NULL, NULL},
};
