"""One step a file, in order of their numbers. A step that was released is never changed: add another one."""
