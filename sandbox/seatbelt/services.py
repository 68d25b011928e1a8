"""What a wrapped process could have others do for it, outside of the wrap: data only.

A process that launchd, another program or a daemon starts on request does not inherit the sandbox. So the programs that
ask are not executed, and the services that they ask are not found.
"""

# Never executed, from nowhere and whatever is granted.
DANGEROUS_PROGRAMS = (
    # start processes elsewhere, or other programs' scripts
    "/bin/launchctl",
    "/usr/bin/open",
    "/usr/bin/osascript",
    "/usr/bin/osacompile",
    "/usr/bin/automator",
    "/usr/bin/shortcuts",
    "/usr/bin/at",
    "/usr/bin/atq",
    "/usr/bin/atrm",
    "/usr/bin/batch",
    "/usr/bin/crontab",
    "/usr/bin/sandbox-exec",
    # become somebody else
    "/usr/bin/sudo",
    "/usr/bin/su",
    "/usr/bin/login",
    "/usr/bin/newgrp",
    "/usr/libexec/authopen",
    "/usr/libexec/security_authtrampoline",
    # keychains, accounts and settings of the system
    "/usr/bin/security",
    "/usr/bin/tccutil",
    "/usr/bin/dscl",
    "/usr/bin/profiles",
    "/usr/sbin/systemsetup",
    "/usr/sbin/networksetup",
    "/usr/sbin/scutil",
    "/usr/sbin/installer",
    "/usr/sbin/softwareupdate",
    # mount and unmount
    "/usr/bin/hdiutil",
    "/usr/sbin/diskutil",
    "/sbin/mount",
    "/sbin/umount",
    # the screen, the clipboard, the system's log, the index of everybody's files
    "/usr/sbin/screencapture",
    "/usr/bin/pbcopy",
    "/usr/bin/pbpaste",
    "/usr/bin/log",
    "/usr/bin/mdfind",
)

# Operations by which other processes are started, steered or changed.
DANGEROUS_OPERATIONS = (
    "appleevent-send",
    "authorization-right-obtain",
    "file-mount",  # the kernel would speak with a file server, past the proxies
    "file-unmount",
    "hid-control",  # keys and clicks for other programs
    "job-creation",
    "lsopen",
    "mach-priv-task-port",
    "user-preference-write",
)

# Services that act for whoever asks: launch programs, pass events on, hand keys out, show other programs' data.
DANGEROUS_SERVICES = (
    "com.apple.coreservices.appleevents",
    "com.apple.coreservices.launchservicesd",
    "com.apple.coreservices.quarantine-resolver",
    "com.apple.lsd.mapdb",
    "com.apple.lsd.modifydb",
    "com.apple.lsd.open",
    "com.apple.lsd.openurls",
    "com.apple.metadata.mds",
    "com.apple.pasteboard.1",
    "com.apple.SecurityServer",
    "com.apple.securityd.xpc",
    "com.apple.windowserver.active",
    "com.apple.xpc.smd",
)
# Names are resolved by the proxies. A resolver is a way out: whatever it is asked for travels.
RESOLVER_SERVICE = "com.apple.dnssd.service"
RESOLVER_SOCKET = "/private/var/run/mDNSResponder"

# Devices that everybody writes to.
DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/random",
    "/dev/urandom",
    "/dev/dtracehelper",
)
# A process's own descriptors.
DEVICE_PATTERNS = ("^/dev/fd/[0-9]+$",)
# Terminals. All of them belong to the user: whoever reads another one takes what is typed there, passwords included.
TERMINAL_PATTERN = "^/dev/ttys[0-9]+$"

# What a process may ask the kernel by sysctl(3), which also tells the environment of every process of the same user.
SYSTEM_VALUES = (
    "kern.argmax", "kern.bootargs", "kern.bootsessionuuid", "kern.boottime", "kern.clockrate", "kern.hostname",
    "kern.iossupportversion", "kern.job_control", "kern.maxfiles", "kern.maxfilesperproc", "kern.maxproc",
    "kern.maxprocperuid", "kern.ngroups", "kern.osproductversion", "kern.osproductversioncompat",
    "kern.osreldate", "kern.osrelease", "kern.osrevision", "kern.ostype", "kern.osvariant_status",
    "kern.osversion", "kern.posix1version", "kern.saved_ids", "kern.secure_kernel", "kern.tcsm_available",
    "kern.tcsm_enable", "kern.usrstack64", "kern.uuid", "kern.version",
    "security.mac.lockdown_mode_state",
)  # fmt: skip
SYSTEM_TREES = (
    "hw.", "kern.ipc.", "kern.proc.pgrp.", "kern.proc.pid.", "machdep.", "net.", "sysctl.", "user.", "vm.",
)  # fmt: skip

# TIOCSTI (sys/ttycom.h): types into the terminal that the wrap shares with its caller. Decimal, since the profile
# language knows neither its name nor hexadecimal numbers.
TIOCSTI = 2147578994

# Secrets below a home directory that only a Mac has, beside `places.SECRET_PLACES`.
SECRET_PLACES = (
    "Library/Application Support/1Password",
    "Library/Application Support/Arc",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Chromium",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/com.apple.TCC",
    "Library/Containers/com.apple.Safari",
    "Library/Group Containers",
    "Library/Mail",
    "Library/Messages",
    "Library/Safari",
)
SYSTEM_SECRETS = ("/Library/Keychains", "/private/var/db/dslocal", "/private/var/root", "/private/var/at")

# Directories of the system, and of everybody's files: none is made writable as a whole.
SYSTEM_ROOTS = (
    "/Applications", "/Library", "/System", "/Users", "/Users/Shared", "/Volumes", "/bin", "/cores", "/opt",
    "/opt/homebrew", "/private", "/private/etc", "/private/tmp", "/private/var", "/private/var/folders",
    "/private/var/tmp", "/sbin", "/tmp", "/usr", "/usr/local", "/var", "/etc",
)  # fmt: skip
