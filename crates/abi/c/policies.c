// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints every policy of policies.def, with the options and counters that its options.h
 * declares, as the Rust expression that src/policies.rs includes; called with "presets", every
 * preset of presets.def likewise. A program, so that the compiler works out every value and
 * joins every string.
 */
#include <stdio.h>
#include <string.h>
#include <abi.h>
#include <options.gen.h>

static void text(const char *field, const char *value)
{
	printf("%s: \"", field);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putchar('\\');
		putchar(*value);
	}
	printf("\", ");
}

static void number(const char *field, uint64_t value)
{
	printf("%s: %llu, ", field, (unsigned long long)value);
}

/* An option that a preset gives another value than the policy's default. */
struct setting {
	const char *option;
	uint64_t value;
};

/* Those of the preset that is being printed; the last has no name. */
static const struct setting *settings = (const struct setting[]){ { NULL, 0 } };

static void option(const char *name, const char *unit, uint64_t dfl, uint64_t least,
		   uint64_t most, const char *help)
{
	for (const struct setting *set = settings; set->option; set++) {
		if (!strcmp(set->option, name))
			dfl = set->value;
	}
	printf("OptionInfo { ");
	text("name", name);
	text("unit", unit);
	number("default", dfl);
	number("least", least);
	number("most", most);
	text("help", help);
	printf("},\n");
}

static void counter(const char *name, const char *description)
{
	printf("CounterInfo { ");
	text("name", name);
	text("description", description);
	printf("},\n");
}

#define PRINT_OPTION(policy, name, unit, dfl, least, most, help)                                   \
	option(#name, unit, dfl, least, most, help);
#define PRINT_COUNTER(policy, name, description) counter(#name, description);

/* A policy, or a preset of @preset_of: of either what it is called, what can be set, what it counts. */
#define PRINT(name_, summary_, preset_of, policy)                                                  \
	printf("PolicyInfo { ");                                                                   \
	text("name", name_);                                                                       \
	text("summary", summary_);                                                                 \
	printf("preset_of: %s%s%s, ", preset_of ? "Some(\"" : "None", preset_of ? #policy : "",    \
	       preset_of ? "\")" : "");                                                            \
	printf("options: &[\n");                                                                   \
	policy##_options(PRINT_OPTION)                                                             \
	printf("], counters: &[\n");                                                               \
	policy##_counters(PRINT_COUNTER)                                                           \
	printf("] },\n");

static void policies(void)
{
#define POLICY(name, summary, ...) PRINT(#name, summary, 0, name)
#include <policies.def>
#undef POLICY
}

static void presets(void)
{
#define SET(policy, option, value) { #option, value },
#define PRESET(name, policy, summary, ...)                                                         \
	settings = (const struct setting[]){ __VA_ARGS__ { NULL, 0 } };                            \
	PRINT(name, summary, 1, policy)
#include <presets.def>
#undef PRESET
#undef SET
}

int main(int argc, char **argv)
{
	printf("&[\n");
	if (argc > 1 && !strcmp(argv[1], "presets"))
		presets();
	else
		policies();
	printf("]\n");
	return 0;
}
