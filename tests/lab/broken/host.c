/* Stands in for a version of the host in the lab: a broken one, or simply a good one.
 *
 * Built by tests/lab/package.rs with VERSION and MODE (both strings) and SECONDS; packed by
 * packaging/build-deb like any host. It shares nothing with the real host but the contract of the
 * state folder, so that what it proves about the units and scripts holds without the host's help.
 *
 *   good        confirms itself, READY, then stays; exits 0 once `result` says `installed`
 *   exit1       prints a last log line and exits 1, at once
 *   exit0       READY, then a clean exit, again and again
 *   hang        never READY, deaf to SIGTERM
 *   freeze      READY, then neither feeds the watchdog nor hears SIGTERM
 *   slow-crash  READY, then exits 1 after SECONDS, before it has confirmed anything
 *   heals       exits 1 at its first start on this node, good from then on
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef SECONDS
#define SECONDS 45
#endif
#define STATE "/var/lib/mesh-host/"

static int is(const char *mode) { return strcmp(MODE, mode) == 0; }

static void say(const char *text)
{
    fprintf(stderr, "stand-in %s (%s): %s\n", VERSION, MODE, text);
}

/* One datagram of the notify protocol; a leading @ is the abstract name space. */
static void notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!path || strlen(path) >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, strlen(path));
    if (to.sun_path[0] == '@')
        to.sun_path[0] = 0;
    int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sendto(s, text, strlen(text), 0, (struct sockaddr *)&to,
           offsetof(struct sockaddr_un, sun_path) + strlen(path));
    close(s);
}

/* Whole or not at all, like every state file. */
static void put(const char *name, const char *text)
{
    char temp[256], final[256];
    snprintf(final, sizeof final, STATE "%s", name);
    snprintf(temp, sizeof temp, STATE ".%s.new", name);
    FILE *f = fopen(temp, "w");
    if (!f) {
        say("cannot write its state");
        return;
    }
    fputs(text, f);
    fflush(f);
    fsync(fileno(f));
    fclose(f);
    rename(temp, final);
}

/* What the host does when it has started and reconciled once. */
static void confirm(void)
{
    char text[64];
    long last = 0;
    put("known-good.copy", VERSION "\n");
    put("known-good", VERSION "\n");
    unlink(STATE "starts");
    DIR *d = opendir(STATE "rollbacks");
    for (struct dirent *e; d && (e = readdir(d));)
        if (atol(e->d_name) > last)
            last = atol(e->d_name);
    if (d)
        closedir(d);
    if (last) {
        snprintf(text, sizeof text, "format=1\nthrough=%ld\n", last);
        put("rollbacks.settled", text);
    }
    say("confirmed");
}

static int installed_result(void)
{
    char line[256];
    int found = 0;
    FILE *f = fopen(STATE "result", "r");
    while (f && fgets(line, sizeof line, f))
        found |= strcmp(line, "status=installed\n") == 0;
    if (f)
        fclose(f);
    return found;
}

/* A result that lay there before this start is an older install's, not a reason to exit. */
static int stay(void)
{
    int old = installed_result();
    notify("READY=1\nSTATUS=stand-in for a good host");
    confirm();
    for (;;) {
        usleep(200 * 1000);
        notify("WATCHDOG=1");
        int now = installed_result();
        if (now && !old) {
            say("an install is done: clean exit");
            return 0;
        }
        old = now;
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("nox-mesh-host " VERSION);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "run") != 0)
        return 2;
    say("starts");
    if (is("exit1")) {
        say("last words: cannot go on");
        return 1;
    }
    if (is("exit0")) {
        notify("READY=1");
        usleep(100 * 1000);
        return 0;
    }
    if (is("hang") || is("freeze")) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGABRT, SIG_IGN);
        if (is("freeze"))
            notify("READY=1");
        for (;;)
            pause();
    }
    if (is("slow-crash")) {
        notify("READY=1");
        for (int tenths = 0; tenths < SECONDS * 10; tenths++) {
            usleep(100 * 1000);
            notify("WATCHDOG=1");
        }
        say("last words: crashed late");
        return 1;
    }
    if (is("heals") && access(STATE "lab-healed", F_OK) != 0) {
        put("lab-healed", "once\n");
        say("last words: only this once");
        return 1;
    }
    return stay();
}
