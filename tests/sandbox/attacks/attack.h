/* What the parts of the attack program share: routes, and the words for what went wrong. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/stat.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define RENAME_NOREPLACE_ 1
#define RENAME_EXCHANGE_ 2
#define RENAME_WHITEOUT_ 4
#define NEW (O_CREAT | O_WRONLY)

/* A route is tried in a process of its own, in a tree of its own, which is looked at afterwards. */
struct route {
    const char *name;
    void (*run)(void);
};

extern const struct route name_routes[], magic_routes[], git_routes[], kernel_routes[], race_routes[];

extern char tree[PATH_MAX];    /* the route's own tree, absolute; also the working directory */
extern char scratch[PATH_MAX]; /* a directory in a private mount */
extern long rounds;            /* of each race */
extern char *self;             /* this program */

void breach(const char *format, ...);       /* one line, one count */
void check(void);                           /* looks at the protected paths of the tree, in the middle of a route */
void put(int descriptor);                   /* writes the word that may not be found anywhere, and closes */
void make(const char *path);                /* an innocent file with the word in it, by open */
char *in_tree(const char *name);            /* absolute */
char *text(const char *format, ...);
pid_t apart(void (*run)(void *), void *what); /* a child that does it and ends; waited for */
