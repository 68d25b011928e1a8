/*
 * Tries to get past the file rules by every route its authors could think of.
 *
 *     attack --list
 *     attack ROOT SCRATCH ROUNDS [ROUTE...]
 *
 * ROOT holds a tree for each route, made by whoever starts this (attacking.py); SCRATCH is a directory in a
 * private mount. Prints a line for each breach: a denied name that is there now, a protected file that holds the word
 * of the attackers, or a privilege that was had. The exit status is the number of breaches, 100 at most.
 */
#include "attack.h"
#include <ftw.h>

char tree[PATH_MAX], scratch[PATH_MAX], *self;
long rounds = 1000;

static const char *const word = "evil";
static volatile int *breaches; /* shared with the children */
static const char *route_name = "";
static const struct route *const groups[] = {name_routes, magic_routes, git_routes, kernel_routes, race_routes};

void breach(const char *format, ...)
{
    char line[2 * PATH_MAX];
    int size = snprintf(line, sizeof line, "BREACH %s: ", route_name);
    va_list arguments;
    va_start(arguments, format);
    size += vsnprintf(line + size, sizeof line - size - 1, format, arguments);
    va_end(arguments);
    line[size++] = '\n';
    __atomic_add_fetch(breaches, 1, __ATOMIC_SEQ_CST);
    if (write(1, line, size) < 0)
        _exit(99);
}

void put(int descriptor)
{
    if (descriptor < 0)
        return;
    if (write(descriptor, word, strlen(word)) < 0) {
        /* a directory, or opened for reading */
    }
    close(descriptor);
}

void make(const char *path) { put(open(path, NEW, 0644)); }

char *text(const char *format, ...)
{
    char *made;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&made, format, arguments) < 0)
        abort();
    va_end(arguments);
    return made;
}

char *in_tree(const char *name) { return text("%s/%s", tree, name); }

pid_t apart(void (*run)(void *), void *what)
{
    pid_t child = fork();
    if (!child) {
        run(what);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return child;
}

/* --- The judge ------------------------------------------------------------------------------------------------ */

static ino_t known[64];
static int known_count;

static int ends(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && !strcasecmp(name + length - tail, end);
}

/* In other words than the rules': the names that the routes use. */
static int is_denied(const char *name)
{
    static const char *const odd[] = {".e\xe2\x80\x8bnv", "x.\xe2\x84\xaa" "ey", "\xef\xbc\x8e" "env",
                                      ".env\xe2\x80\x8b", ".\xef\xbd\x85\xef\xbd\x8e\xef\xbd\x96", "k.k\xc2\xad" "ey"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (!strcmp(name, odd[i]))
            return 1;
    return !strcasecmp(name, ".env") || !strncasecmp(name, ".env.", 5) || ends(name, ".key") || ends(name, ".pem");
}

static int holds_word(const char *path)
{
    char content[4096];
    int descriptor = open(path, O_RDONLY | O_NONBLOCK);
    if (descriptor < 0)
        return 0;
    ssize_t size = read(descriptor, content, sizeof content - 1);
    close(descriptor);
    return size > 0 && memmem(content, size, word, strlen(word)) != NULL;
}

static int remember(const char *path, const struct stat *found, int kind, struct FTW *place)
{
    (void)kind;
    if (is_denied(path + place->base) && known_count < 64)
        known[known_count++] = found->st_ino;
    return 0;
}

static int look(const char *path, const struct stat *found, int kind, struct FTW *place)
{
    (void)kind;
    if (!is_denied(path + place->base))
        return 0;
    for (int i = 0; i < known_count; i++)
        if (known[i] == found->st_ino) {
            if (S_ISREG(found->st_mode) && found->st_size != 6)
                breach("%s was written", path);
            else if (S_ISREG(found->st_mode) && holds_word(path))
                breach("%s was written", path);
            else if (S_ISREG(found->st_mode) && found->st_nlink != 1)
                breach("%s has another name", path);
            return 0;
        }
    breach("%s exists", path);
    return 0;
}

void check(void)
{
    static const char *const absent[] = {".git/hooks/pre-commit", ".git/commondir", ".claude/settings.json",
                                         "sub/.claude/settings.json"};
    static const char *const whole[] = {".git/config", ".git/hooks/pre-commit.sample"};
    struct stat found;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (!stat(in_tree(absent[i]), &found))
            breach("%s exists", absent[i]);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (holds_word(in_tree(whole[i])))
            breach("%s was written", whole[i]);
}

static void judge(void)
{
    struct stat found;
    if (stat(tree, &found) || nftw(tree, look, 20, FTW_PHYS))
        return breach("the tree is gone");
    check();
}

/* --- The runner ----------------------------------------------------------------------------------------------- */

static void try_route(const struct route *route, const char *root)
{
    snprintf(tree, sizeof tree, "%s/%s", root, route->name);
    route_name = route->name;
    known_count = 0;
    if (chdir(tree) || nftw(tree, remember, 20, FTW_PHYS))
        return breach("no tree to try it in");
    pid_t child = fork();
    if (!child) {
        setpgid(0, 0);
        alarm(120); /* a patience: whatever takes longer hangs */
        route->run();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    kill(-child, SIGKILL);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        breach("hangs");
    judge();
}

int main(int count, char **arguments)
{
    int list = count == 2 && !strcmp(arguments[1], "--list");
    if (!list && count < 4)
        return 99;
    self = arguments[0];
    if (!list) {
        snprintf(scratch, sizeof scratch, "%s", arguments[2]);
        rounds = atol(arguments[3]);
    }
    breaches = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t group = 0; group < sizeof groups / sizeof *groups; group++)
        for (const struct route *route = groups[group]; route->name; route++) {
            int wanted = list || count == 4;
            for (int i = 4; i < count; i++)
                wanted |= !strcmp(arguments[i], route->name);
            if (list)
                puts(route->name);
            else if (wanted)
                try_route(route, arguments[1]);
        }
    return *breaches > 100 ? 100 : *breaches;
}
