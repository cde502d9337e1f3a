"""Networks of Qualcomm AI Hub: modules of our own where no package builds them, written after what their authors publish."""
