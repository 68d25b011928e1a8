/* procfs: other spellings of one's own directories and descriptors. */
#include "attack.h"

static void directories(void)
{
    int folder = open(".", O_RDONLY | O_DIRECTORY), path = open("sub", O_PATH);
    const char *const places[] = {
        "/proc/self/cwd", "/proc/thread-self/cwd", text("/proc/%d/cwd", getpid()), text("/proc/self/task/%d/cwd", getpid()),
        "//proc//self//cwd", "/proc/self/../self/cwd", "/proc/self/cwd/sub/..", text("/proc/self/root%s", tree),
        text("/proc/%d/root%s", getpid(), tree), text("/proc/self/root/proc/self/root%s", tree),
        text("/proc/self/fd/%d", folder), text("/dev/fd/%d", folder), text("/proc/self/fd/%d/..", path),
        text("/dev/fd/../fd/%d", folder), text("/proc/1/root%s", tree), text("/proc/%d/cwd", getppid()),
        text("/proc/thread-self/root/%s", tree + 1), text("/proc/self/cwd/../%s", strrchr(tree, '/') + 1),
        text("/proc/self/task/%d/fd/%d", getpid(), folder), "/proc/self/cwd/../../proc/self/cwd",
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        put(open(text("%s/a%zu.key", places[i], i), NEW, 0644));
        put(open(text("%s/.env", places[i]), O_WRONLY));
        put(open(text("%s/sub/.env", places[i]), O_RDWR | O_TRUNC));
        mkdir(text("%s/b%zu.key", places[i], i), 0755);
        symlink("x", text("%s/c%zu.key", places[i], i));
        rename("ok.txt", text("%s/d%zu.key", places[i], i));
        rename(text("%s/ok.txt", places[i]), text("%s/e%zu.key", places[i], i));
        link("ok.txt", text("%s/f%zu.key", places[i], i));
        mknod(text("%s/g%zu.key", places[i], i), S_IFREG | 0644, 0);
        truncate(text("%s/.env", places[i]), 0);
    }
    int self_folder = open("/proc/self", O_PATH), descriptors = open("/proc/self/fd", O_PATH);
    put(openat(self_folder, "cwd/z1.key", NEW, 0644));
    put(openat(descriptors, text("%d/z2.key", folder), NEW, 0644));
    if (!chdir("/proc/self")) {
        put(open(text("fd/%d/z3.key", folder), NEW, 0644));
        put(open(text("root%s/z4.key", tree), NEW, 0644));
        put(open(text("root%s/.env", tree), O_WRONLY));
    }
    if (!fchdir(folder)) {
        symlink("/proc/self/cwd", "innocent");
        put(open("innocent/z5.key", NEW, 0644));
        symlink(text("/proc/self/fd/%d", folder), "innocent2");
        put(open("innocent2/z6.key", NEW, 0644));
    }
}

static void reopens(void) /* a descriptor for reading becomes one for writing */
{
    int how[] = {O_RDONLY, O_PATH, O_RDONLY | O_NOFOLLOW};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        int file = open(".env", how[i]);
        const char *const names[] = {
            text("/proc/self/fd/%d", file), text("/proc/thread-self/fd/%d", file), text("/dev/fd/%d", file),
            text("/proc/%d/fd/%d", getpid(), file), text("/proc/self/task/%d/fd/%d", getpid(), file),
            text("//proc/./self/fd//%d", file), text("/proc/self/fd/../fd/%d", file), text("/proc/self/root/proc/self/fd/%d", file),
            text("/proc/self/cwd/../../../../../../../../proc/self/fd/%d", file),
        };
        for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
            put(open(names[name], O_WRONLY));
            put(open(names[name], O_RDWR | O_APPEND));
            put(open(names[name], O_RDONLY | O_TRUNC));
            truncate(names[name], 1);
        }
        put(openat(open("/proc/self/fd", O_RDONLY), text("%d", file), O_WRONLY));
        if (!chdir("/proc/self/fd"))
            put(open(text("%d", file), O_WRONLY | O_TRUNC));
        if (chdir(tree))
            return;
        symlink(text("/proc/self/fd/%d", file), text("innocent%zu", i));
        put(open(text("innocent%zu", i), O_WRONLY));
        symlink(text("/dev/fd/%d", file), text("%s/innocent%zu", scratch, i));
        put(open(text("%s/innocent%zu", scratch, i), O_WRONLY));
        unlink(text("%s/innocent%zu", scratch, i));
        dup2(file, 0);
        put(open("/dev/stdin", O_WRONLY));
        put(open("/dev/stdin", O_RDONLY | O_TRUNC));
        put(open("/proc/self/fd/0", O_WRONLY));
        put(openat(file, "", O_WRONLY));
        char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED && !mprotect(mapped, 4096, PROT_READ | PROT_WRITE))
            memcpy(mapped, "evil", 4);
        if (mapped != MAP_FAILED) {
            char *map = text("/proc/self/map_files/%lx-%lx", (long)mapped, (long)mapped + 4096);
            put(open(map, O_WRONLY));
            put(open(map, O_RDWR | O_TRUNC));
            int memory = open("/proc/self/mem", O_RDWR);
            if (memory >= 0 && pwrite(memory, "evil", 4, (off_t)(uintptr_t)mapped) < 0)
                close(memory);
        }
        close(file);
    }
}

static void by_another(void *what) /* our descriptors and directories, through our number */
{
    int number = getppid(), file = *(int *)what;
    put(open(text("/proc/%d/fd/%d", number, file), O_WRONLY));
    put(open(text("/proc/%d/fd/%d", number, file), O_RDONLY | O_TRUNC));
    put(open(text("/proc/%d/cwd/a1.key", number), NEW, 0644));
    put(open(text("/proc/%d/root%s/a2.key", number, tree), NEW, 0644));
    put(open(text("/proc/%d/task/%d/cwd/.env", number, number), O_WRONLY));
    if (!chdir(text("/proc/%d", number))) {
        put(open("cwd/a3.key", NEW, 0644));
        put(open(text("fd/%d", file), O_WRONLY));
    }
}

static void by_others(void)
{
    int file = open(".env", O_RDONLY);
    apart(by_another, &file);
}

static void private_self(void) /* /proc/self with a working directory and root elsewhere */
{
    int file = open(".env", O_RDONLY);
    if (chdir(scratch))
        return;
    symlink(text("/proc/self/fd/%d", file), "p");
    put(open("p", O_WRONLY));
    symlink("/proc/self", "q");
    put(open(text("q/fd/%d", file), O_WRONLY));
    put(open(text("q/root%s/a1.key", tree), NEW, 0644));
    symlink(text("/proc/self/root%s", tree), "r");
    put(open("r/a2.key", NEW, 0644));
    put(open("r/.env", O_WRONLY));
    unlink("p"), unlink("q"), unlink("r");
}

const struct route magic_routes[] = {
    {"proc-directories", directories}, {"proc-reopens", reopens}, {"proc-others", by_others},
    {"proc-private", private_self}, {NULL, NULL},
};
