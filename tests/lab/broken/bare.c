/* A program of another architecture: it only has to be a whole one. No C library is needed for it. */
void _start(void)
{
    for (;;) {
    }
}
