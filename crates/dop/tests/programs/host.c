// SPDX-License-Identifier: GPL-2.0-only
// A program without OpenMP that loads libraries which have it, as Python does, and tells for each
// line of its input how many threads a region of each has.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **names)
{
	int (*regions[8])(void);
	char line[100];
	for (int i = 1; i < count && i < 8; i++) {
		void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		regions[i] = library ? (int (*)(void))dlsym(library, "region") : NULL;
		if (!regions[i]) {
			puts(dlerror());
			return 1;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 1; i < count && i < 8; i++)
			printf("%s%d", i == 1 ? "" : " ", regions[i]());
		puts("");
	}
	return 0;
}
