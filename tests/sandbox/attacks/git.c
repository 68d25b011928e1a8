/* What a protected path can be got at by: its ancestors, what stands in its place, what once was another file. */
#include "attack.h"

static const char harmless[] = "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n";
static const char harmful[] = "[core]\n\thooksPath = evil\n";
static const char update[] = "[submodule \"m\"]\n\tupdate = !evil\n";

static char *config_with(const char *more) /* the configuration as it is, and more */
{
    char now[4096] = "";
    int file = open(".git/config", O_RDONLY);
    if (file < 0 || read(file, now, sizeof now - 1) < 0)
        now[0] = 0;
    close(file);
    return text("%s%s", now, more);
}

static int locked(const char *more)
{
    int lock = open(".git/config.lock", O_CREAT | O_EXCL | O_RDWR, 0644);
    char *content = config_with(more);
    if (lock >= 0 && write(lock, content, strlen(content)) < 0)
        return -1;
    return lock;
}

static void direct(void)
{
    put(open(".git/config", O_WRONLY | O_APPEND));
    put(open(".git/config", O_RDWR | O_TRUNC));
    truncate(".git/config", 0);
    make(".git/hooks/pre-commit");
    make(".git/commondir");
    make("b1"), make("b2"), make("b3");
    rename("b1", ".git/hooks/pre-commit");
    link("b2", ".git/hooks/pre-commit");
    symlink("../../b2", ".git/hooks/pre-commit");
    rename("b2", ".git/config");
    rename("b3", ".git/hooks/pre-commit.sample");
    link("b3", ".git/commondir");
    mkdir(".git/hooks/pre-commit", 0755);
    put(open(".GIT/config", O_WRONLY | O_APPEND));
    if (!chdir(".git/hooks"))
        make("pre-commit");
    if (!chdir(".."))
        make("hooks/pre-commit");
}

static void fill(const char *folder) /* a git directory in waiting */
{
    mkdir(folder, 0755);
    mkdir(text("%s/hooks", folder), 0755);
    make(text("%s/hooks/pre-commit", folder));
    make(text("%s/config", folder));
    make(text("%s/commondir", folder));
}

static void ancestors(void)
{
    fill("c");
    if (!rename(".git", "d") && !rename("c", ".git"))
        check(), rename(".git", "c"), rename("d", ".git");
    if (!syscall(SYS_renameat2, AT_FDCWD, "c", AT_FDCWD, ".git", RENAME_EXCHANGE_))
        check(), syscall(SYS_renameat2, AT_FDCWD, "c", AT_FDCWD, ".git", RENAME_EXCHANGE_);
    if (!rename(".git/hooks", ".git/old") && !rename("c/hooks", ".git/hooks"))
        check(), rename(".git/hooks", "c/hooks"), rename(".git/old", ".git/hooks");
    if (!syscall(SYS_renameat2, AT_FDCWD, "c/hooks", AT_FDCWD, ".git/hooks", RENAME_EXCHANGE_))
        check(), syscall(SYS_renameat2, AT_FDCWD, "c/hooks", AT_FDCWD, ".git/hooks", RENAME_EXCHANGE_);
    if (!syscall(SYS_renameat2, AT_FDCWD, "c/config", AT_FDCWD, ".git/config", RENAME_EXCHANGE_))
        check(), syscall(SYS_renameat2, AT_FDCWD, "c/config", AT_FDCWD, ".git/config", RENAME_EXCHANGE_);
    if (!rename(".git", "sub/f") && !symlink("c", ".git"))
        check(), unlink(".git"), rename("sub/f", ".git");
    if (!syscall(SYS_renameat2, AT_FDCWD, ".git", AT_FDCWD, "e", RENAME_WHITEOUT_))
        breach(".git was moved away");
}

static void whole_tree(void) /* the tree itself moves, and another comes in its place */
{
    char *aside = text("%s.aside", tree), *other = text("%s.other", tree);
    mkdir(other, 0755);
    fill(text("%s/.git", other));
    fill(text("%s/c", other));
    rename(text("%s/c", other), text("%s/.git", other));
    if (!rename(tree, aside)) {
        rename(other, tree);
        breach("moved away");
    }
    syscall(SYS_renameat2, AT_FDCWD, other, AT_FDCWD, tree, RENAME_EXCHANGE_);
}

static void empties(const char *folder)
{
    DIR *open_folder = opendir(folder);
    for (struct dirent *entry; open_folder && (entry = readdir(open_folder));) {
        char *path = text("%s/%s", folder, entry->d_name);
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (unlink(path))
            empties(path);
    }
    if (open_folder)
        closedir(open_folder);
    rmdir(folder);
}

static void after_removal(void) /* what is gone must not come back as something else */
{
    fill("c"), fill("d"), fill("e");
    unlink(".git/config");
    make(".git/config"), check(), unlink(".git/config");
    rename("c/config", ".git/config"), check();
    empties(".git/hooks");
    rename("c/hooks", ".git/hooks"), check(), empties(".git/hooks");
    symlink("../d/hooks", ".git/hooks"), check(), unlink(".git/hooks");
    mkdir(".git/hooks", 0755);
    make(".git/hooks/pre-commit"), check();
    empties(".git");
    symlink("d", ".git"), check(), unlink(".git");
    rename("d", ".git"), check(), empties(".git");
    syscall(SYS_renameat2, AT_FDCWD, "e", AT_FDCWD, ".git", RENAME_NOREPLACE_), check(), empties(".git");
    mkdir(".git", 0755);
    mkdir(".git/hooks", 0755);
    make(".git/hooks/pre-commit");
    make(".git/config");
    make(".git/commondir");
}

static void kept_descriptor(void)
{
    int lock = locked(harmless);
    if (lock < 0)
        return;
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, lock, 0);
    link(".git/config.lock", ".git/second");
    rename(".git/config.lock", ".git/config");
    if (write(lock, harmful, sizeof harmful - 1) < 0 || pwrite(lock, "[evil]\n", 7, 0) < 0)
        perror("write");
    if (mapped != MAP_FAILED)
        memcpy(mapped, "[evil]\n", 7);
    put(open(".git/second", O_WRONLY | O_TRUNC));
    put(open(text("/proc/self/fd/%d", lock), O_WRONLY | O_APPEND));
}

static void harmful_configs(void)
{
    const char *const contents[] = {harmful, update, "[include]\n\tpath = evil\n", "[alias]\n\tx = !evil\n",
                                    "[remote \"o\"]\n\turl = evil\n", "[core]\n\tfsmonitor = evil\n",
                                    "[submodule \"m\"]\n\tUPDATE = !evil\n", "[CORE]\n\thookspath = evil\n",
                                    "[branch \"x\"]\n\tremote = \"ext::evil\"\n", "[filter \"f\"] clean = evil\n"};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        close(locked(contents[i]));
        rename(".git/config.lock", ".git/config");
        link(".git/config.lock", ".git/config");
        symlink("config.lock", ".git/config");
        unlink(".git/config.lock");
    }
    symlink("../b1", ".git/config.lock");
    make("b1");
    rename(".git/config.lock", ".git/config");
}

static void *rewrites(void *what)
{
    int lock = *(int *)what;
    off_t end = lseek(lock, 0, SEEK_END) - strlen(harmless);
    for (;;) {
        if (pwrite(lock, "[core]\n\thooksPath = evil\n\n\n\n\n\n", 30, end) < 0)
            return NULL;
        if (pwrite(lock, harmless, 30, end) < 0)
            return NULL;
    }
}

static void racing_config(void) /* the content changes while it is judged */
{
    static int lock;
    for (long i = 0; i < rounds / 20; i++) {
        pthread_t thread;
        lock = locked(harmless);
        if (lock < 0)
            return;
        pthread_create(&thread, NULL, rewrites, &lock);
        rename(".git/config.lock", ".git/config");
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        close(lock);
        unlink(".git/config.lock");
        char now[4096] = "";
        int file = open(".git/config", O_RDONLY);
        if (file >= 0 && read(file, now, sizeof now - 1) > 0 && strstr(now, "evil"))
            return breach("the configuration changed after it was judged");
        close(file);
    }
}

const struct route git_routes[] = {
    {"git-direct", direct}, {"git-ancestors", ancestors}, {"git-whole-tree", whole_tree},
    {"git-after-removal", after_removal}, {"git-kept-descriptor", kept_descriptor},
    {"git-harmful-configs", harmful_configs}, {"git-racing-config", racing_config}, {NULL, NULL},
};
