#include "a.h"
#define MAX(a,b) ((a)>(b))
#define N 3
/* A foo. */
struct foo { int a; struct bar *b; };
typedef struct { int x; } baz_t;
enum e { A, B };
/* Helps. */
static int helper(struct foo *f, int n)
{
    struct foo *g = make(n);
    g->cb(n);
    return helper(f, n);
}
int *ptr(void) { return 0; }
int global = 1;
